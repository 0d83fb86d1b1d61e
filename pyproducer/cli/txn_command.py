"""`python -m pyproducer txn list|describe|abort|leftovers`: who has a transaction open, and what to do about it.

An open transaction holds up every reader of committed records in its partitions. Its coordinator aborts it after
transaction.timeout.ms; `abort` does so now. `leftovers` is for streams that are written exactly once: what is decided
must not be aborted.

Exit status: 0; 1 where a broker refuses or does not answer; 2 for a wrong command.

Road:    command line -> [txn] -> client/coordinator_client.py, pyproducer.twophase
Thread:  the main thread.
Source:  ours; Kafka's kafka-transactions.sh.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import click

from pyproducer.cli.client_settings import Number, cluster_options, props_of
from pyproducer.client.coordinator_client import (
    CoordinatorClient,
    EndRequest,
    TransactionDescription,
    coordinators_of,
)
from pyproducer.common.clock import SystemClock
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError, KafkaError
from pyproducer.common.printable import printable
from pyproducer.producer.config import ProducerConfig

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_REFUSED = 1


@click.group()
def txn() -> None:
    """Look at transactions, and abort one that nobody ends.

    Exit status: 0; 1 where a broker refuses or does not answer; 2 where the command line is wrong.

    \b
    Example:
      pyproducer txn list -b kafka:9092 --state Ongoing
    """  # noqa: D301 - click reads the backspace


def _with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say which cluster, and a client of it as its first argument."""
    @cluster_options
    @click.option("--timeout", "timeout_s", type=Number(0.1, 86_400), default=30, show_default=True,
                  help="Longest time for the whole, in seconds.")
    @wraps(command)
    def run(servers: str | None, path: str | None, properties: Sequence[str], timeout_s: float, **arguments: Any
            ) -> None:
        props = props_of(servers, path, properties)
        try:
            with _client(ProducerConfig(props), timeout_s) as client:
                command(client, **arguments)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        except KafkaError as error:
            click.echo(f"{error}", err=True)
            sys.exit(_REFUSED)
    return run


@contextlib.contextmanager
def _client(config: ProducerConfig, timeout_s: float) -> Iterator[CoordinatorClient]:
    clock = SystemClock()
    until_ms = clock.now_ms() + int(timeout_s * 1000)
    with coordinators_of(config, timeout_s=timeout_s, clock=clock) as coordinators:
        coordinators.until_ms = until_ms
        yield coordinators


@txn.command("list")
@_with_client
@click.option("--state", "states", multiple=True, type=click.Choice(STATES),
              help="Only ids in this state; may be given several times.")
@click.option("--pattern", metavar="REGEX", help="Only ids that this regular expression matches as a whole.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def list_command(client: CoordinatorClient, states: Sequence[str], pattern: str | None, is_json: bool) -> None:
    """List the transactional ids that the brokers know, with their producer ids, states and coordinators.

    \b
    Example:
      pyproducer txn list -b kafka:9092 --state Ongoing --pattern 'bank-.*'
    """  # noqa: D301 - click reads the backspace
    rows = client.list_transactions(states=states, pattern=pattern)
    if is_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    for row in rows:
        click.echo(f"{printable(row.transactional_id)}  {row.state}  producer id {row.producer_id}  "
                   f"coordinator {row.node_id}")


@txn.command()
@_with_client
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def describe(client: CoordinatorClient, ids: Sequence[str], is_json: bool) -> None:
    """Say what the coordinators know of transactional ids: state, producer, time, partitions.

    \b
    Example:
      pyproducer txn describe -b kafka:9092 bank-1 bank-2
    """  # noqa: D301 - click reads the backspace
    found = client.describe_transactions(ids)
    if is_json:
        click.echo(json.dumps([_as_json(each) for each in found], indent=2))
    else:
        for each in found:
            click.echo(_text(each))
    if any(each.error_code for each in found):
        sys.exit(_REFUSED)


@txn.command()
@_with_client
@click.argument("transactional_id", metavar="ID")
@click.option("--fence", "fences", is_flag=True, help="Fence the producer, too: it can only be closed then.")
def abort(client: CoordinatorClient, transactional_id: str, fences: bool) -> None:
    """Abort the open transaction of a transactional id.

    Its producer, if it lives, learns of that at its next request. Nothing is done where none is open, but for --fence.

    \b
    Example:
      pyproducer txn abort -b kafka:9092 bank-1
    """  # noqa: D301 - click reads the backspace
    (found,) = client.describe_transactions([transactional_id])
    if found.error_code:
        click.echo(_text(found), err=True)
        sys.exit(_REFUSED)
    if fences:
        fenced = client.init_producer_id(transactional_id, max(found.timeout_ms, 1))
        ended = {"Ongoing": "its transaction is aborted", "PrepareAbort": "its transaction is aborted",
                 "PrepareCommit": "its transaction is committed, as it was decided before"}
        click.echo(f"{printable(transactional_id)}: the producer is fenced, "
                   f"{ended.get(found.state, f'no transaction was open ({found.state})')}; the epoch is {fenced.epoch} "
                   "now")
        return
    if found.state != "Ongoing":
        click.echo(f"{printable(transactional_id)}: no transaction is open ({found.state})")
        return
    (code,) = client.end_transactions([EndRequest(transactional_id, found.producer_id, found.epoch, False)])
    if code:
        click.echo(f"{printable(transactional_id)}: it was not aborted: {ErrorCode.name_of(code)}. It ended meanwhile, "
                   "or another producer has the id", err=True)
        sys.exit(_REFUSED)
    click.echo(f"{printable(transactional_id)}: its transaction is aborted")


@txn.command()
@cluster_options
@click.argument("exactly_once_id", metavar="ID")
@click.option("--topic", help="exactly.once.topic, where decisions are kept for several.")
@click.option("--end", "ends", is_flag=True, help="Commit what is decided, and abort the rest; a query of this id that "
                                                  "runs fails at its next commit.")
@click.option("--timeout", "timeout_s", type=Number(0.1, 86_400), default=30, show_default=True,
              help="Longest time for each step, in seconds.")
def leftovers(exactly_once_id: str, topic: str | None, *, ends: bool, servers: str | None, path: str | None,
              properties: Sequence[str], timeout_s: float) -> None:
    """Look at what a stream that is written exactly once has left open, and end it.

    ID is its exactly.once.id. When its query is started again that is done anyway.

    \b
    Example:
      pyproducer txn leftovers -b kafka:9092 orders-stream --end
    """  # noqa: D301 - click reads the backspace
    from pyproducer.twophase import TwoPhase  # here: the others need less

    props = {**props_of(servers, path, properties), "max.block.ms": int(timeout_s * 1000)}
    name = printable(exactly_once_id)
    try:
        with TwoPhase(props, exactly_once_id, topic) as driver:
            last = driver.last_decision(waits=False)  # whoever was killed in the middle of one has not decided
            click.echo(f"{name}: nothing is decided" if last is None else
                       f"{name}: the last decision is batch {last.batch_id}, {len(last.tasks)} transactions"
                       f"{f', query {printable(last.query_id)}' if last.query_id else ''}")
            for each in driver.leftovers():
                what = "decided, to be committed" if each.is_decided else "not decided, to be aborted"
                click.echo(f"{printable(each.transactional_id)}: open since {each.start_ms} ms of the epoch, {what}")
            if ends:
                plan = driver.plan()
                lost = [] if plan.last is None else [task for task in plan.last.tasks if task.number in plan.lost]
                for task in lost:
                    click.echo(f"task {task.number}: its {task.row_count} rows are lost, the transaction timed out; "
                               "when the query is started again it writes them again")
                click.echo(f"{name}: what was decided is committed, and nothing is open")
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except KafkaError as error:
        click.echo(f"{error}", err=True)
        sys.exit(_REFUSED)


def _as_json(each: TransactionDescription) -> dict[str, Any]:
    return {**each._asdict(), "partitions": [str(place) for place in each.partitions],
            "error": ErrorCode.name_of(each.error_code) if each.error_code else None}


def _text(each: TransactionDescription) -> str:
    name = printable(each.transactional_id)
    if each.error_code:
        return f"{name}: {ErrorCode.name_of(each.error_code)}: {ErrorCode.of(each.error_code).sentence}"
    is_over = each.state.startswith("Complete")
    since = "" if each.start_ms < 0 else f", {'begun at' if is_over else 'open since'} {each.start_ms} ms of the epoch"
    places = ", ".join(map(str, each.partitions))
    return (f"{name}: {each.state}, producer id {each.producer_id}, epoch {each.epoch}, transaction.timeout.ms "
            f"{each.timeout_ms}{since}{f': {places}' if places else ''}")
