// A Node program meets a broker in trouble: npm test, with `python -m pyproducer broker --control-port 9099` running.
import assert from "node:assert/strict";
import test from "node:test";
import kafkajs from "kafkajs";

const control = process.env.CONTROL ?? "http://127.0.0.1:9099";

/** Make a call of the control port; return its result. */
async function ask(word, args = {}) {
  const response = await fetch(`${control}/${word}`, { method: "POST", body: JSON.stringify(args) });
  const { result, message } = await response.json();
  assert.equal(response.status, 200, message);
  return result;
}

test("the third Produce is refused and sent again", async () => {
  const topic = `node-${Date.now()}`;
  await ask("create_topic", { name: topic });
  const { fault } = await ask("faults/on", {
    api: "Produce", topic, after: 2, do: { error: { code: "NOT_LEADER_OR_FOLLOWER" } },
  });

  const brokers = (await ask("health")).bootstrap_servers.PLAINTEXT;
  const kafka = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING, retry: { initialRetryTime: 10 } });
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
  await producer.connect();
  try {
    for (let number = 0; number < 4; number++) {
      await producer.send({ topic, messages: [{ value: `${number}` }] });
    }
  } finally {
    await producer.disconnect();
  }

  assert.equal(await ask(`faults/${fault}/count`), 1);
  assert.deepEqual(await ask("log_end_offsets", { topic }), { 0: 4 });
});
