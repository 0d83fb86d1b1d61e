"""Measurements, each a program: `python -m benchmarks.NAME --help`; `make bench` runs those without a star.

compare         one workload, pyproducer beside other producers on one real broker
matrix          the same over value sizes, codecs, keys, partitions, defaults and distances
latency         a caller that waits for each record, also beside what computes, and how late a thread wakes up beside it
event_loop      the producer of an event loop beside aiokafka's, and a web app whose Kafka goes away
cost_model      what a record, a batch, a request and a KiB cost in CPU, and how well that explains many workloads
gate*           this working tree beside a commit: PASS, REGRESSION or INCONCLUSIVE
transactions*   transactions of several sizes beside confluent-kafka's and Java's, and ids bound one after another
memory          resident size while the broker is too slow
startup         import time, and time until the first acknowledgement
spark*          DataFrames: the data source and KafkaSink beside Spark's own sink
spark_cold*     the first write of a session, by each road and in each process
frames*         a frame of ten columns as JSON, beside json.dumps into confluent-kafka
send_lines*     lines of a file by `pyproducer send`, beside Kafka's console producer
send_batch      columns handed over at once, beside send() and a raw socket
broker_limits*  what one client can do to the embedded broker: time, memory, others' round trips
broker_accepts* how fast it takes connections and what it computes when idle, beside Apache Kafka
batch_writer    the batch writer and reader alone, without a network
per_batch*      a batch from its first record to its end, on both texts, without a network
ledger*         the bookkeeping of a batch alone
calls*          how many calls of Python a synchronous send takes
"""
