"""The jars of Apache Kafka, copied once by Maven into .cache/, and the Java that runs them.

Source:  ours; the list of jars is tests/support/kafka/pom.xml.

No import of pytest: benchmarks use this module too. Whatever is absent is a MissingTool whose one sentence says what
to install; the suite turns it into a skip, or into a failure where CI=true.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from tests.support.patience import GIVE_UP_S, PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
POM = Path(__file__).resolve().parent / "kafka" / "pom.xml"
KAFKA_VERSION = "4.1.0"  # the same as kafka.version in the pom
# Spark's Kafka connector and what it needs besides Spark, each as new as Maven Central has all of it. pyspark 4.2 and
# 4.3 load the newest; an older Spark has other classes, and gets its own. The token provider is not there in the
# connector's own version.
NEWEST_SPARK_CONNECTOR = "4.2.0"
SPARK_CONNECTORS = {"3.5": "3.5.6", "4.0": "4.0.1", "4.1": "4.1.1"}
BESIDE_SPARK_CONNECTOR = ("org.apache.commons:commons-pool2:2.12.1", "org.apache.kafka:kafka-clients:3.9.2")
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
MINIMUM_JAVA = 17  # what the broker of Kafka 4 asks for
# A JVM that lives for seconds: compiled once and for all, one collector's thread.
SHORT_RUN = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JDK_HINT = "Debian: apt-get install openjdk-17-jdk-headless"


class MissingTool(Exception):
    """A program or a jar that a test needs is not here; the text says what to install."""


@cache
def java() -> str:
    """Return the path of a Java that can run the broker.

    Raises:
        MissingTool: There is none, or it is older than 17.
    """
    path = _program("java")
    if path is None:
        raise MissingTool(f"java is not installed: install a JDK {MINIMUM_JAVA} or newer ({JDK_HINT})")
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    words = (answer.stderr or answer.stdout).split('"')
    version = words[1] if len(words) > 1 else ""
    major = version.split(".")[0]
    if not major.isdigit() or int(major) < MINIMUM_JAVA:
        raise MissingTool(f"java is version {version or 'unknown'}: install a JDK {MINIMUM_JAVA} or newer ({JDK_HINT})")
    return path


@cache
def kafka_classpath() -> str:
    """Return the class path of the Apache Kafka 4.1 broker.

    Raises:
        MissingTool: The jars are not in the cache and Maven is absent or could not fetch them.
    """
    folder = CACHE / "kafka" / KAFKA_VERSION
    if not folder.is_dir():
        _fetch(folder, folder.is_dir, ["-f", str(POM), f"{DEPENDENCY_PLUGIN}:copy-dependencies",
                                       "-DincludeScope=runtime"])
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


@cache
def kafka_clients_jar(version: str = "4.3.0") -> Path:
    """Return kafka-clients of one version: it holds the JSON of every message of the protocol.

    Raises:
        MissingTool: The jar is not in the cache and Maven is absent or could not fetch it.
    """
    folder = CACHE / "kafka-clients" / version
    jar = folder / f"kafka-clients-{version}.jar"
    if not jar.is_file():
        _fetch(folder, jar.is_file, [f"{DEPENDENCY_PLUGIN}:copy",
                                     f"-Dartifact=org.apache.kafka:kafka-clients:{version}"])
    return jar


@cache
def kafka_tools_classpath() -> str:
    """Return the class path of Kafka's command line tools: kafka-topics and the others.

    Raises:
        MissingTool: The jars are not in the cache and Maven is absent or could not fetch them.
    """
    folder = CACHE / "kafka-tools" / KAFKA_VERSION
    jar = folder / f"kafka-tools-{KAFKA_VERSION}.jar"  # what it needs besides, the broker needs too
    if not jar.is_file():
        _fetch(folder, jar.is_file, [f"{DEPENDENCY_PLUGIN}:copy",
                                     f"-Dartifact=org.apache.kafka:kafka-tools:{KAFKA_VERSION}"])
    return os.pathsep.join([str(jar), kafka_classpath()])


@cache
def spark_connector_jars() -> list[Path]:
    """Return the jars of Spark's own Kafka source and sink, for `spark.jars`; they fit the pyspark that is installed.

    Raises:
        MissingTool: A jar is not in the cache and Maven is absent or could not fetch it.
    """
    jars = []
    minor = ".".join(metadata.version("pyspark").split(".")[:2])
    connector = SPARK_CONNECTORS.get(minor, NEWEST_SPARK_CONNECTOR)
    scala, token_provider = ("2.12", connector) if minor == "3.5" else ("2.13", "4.0.0")
    for artifact in (f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{connector}",
                     f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{token_provider}",
                     *BESIDE_SPARK_CONNECTOR):
        _, name, version = artifact.split(":")
        folder = CACHE / "spark-connector" / f"{name}-{version}"
        if not folder.is_dir():
            _fetch(folder, folder.is_dir, [f"{DEPENDENCY_PLUGIN}:copy", f"-Dartifact={artifact}"])
        jars.append(folder / f"{name}-{version}.jar")
    return jars


def ask_java(source: Path, *arguments: str, stdin: str = "") -> list[str]:
    """Run the main method of one Java file with the broker's jars, and return the lines that it printed.

    Args:
        source: See `compile_java`, which says too what is raised.
        arguments: Of the program.
        stdin: What it reads, in UTF-8.
    """
    classpath = os.pathsep.join([str(compile_java(source)), kafka_classpath()])
    answer = subprocess.run([java(), *SHORT_RUN, "-cp", classpath, source.stem, *arguments], input=stdin,
                            capture_output=True, encoding="utf-8", timeout=PROGRAM_S, check=True)
    return answer.stdout.splitlines()


def compile_java(source: Path, classpath: str | None = None) -> Path:
    """Compile one Java file and return a jar with its classes; compiled again only when its text changes.

    Args:
        source: The .java file; its public class has no package.
        classpath: What it is compiled against; the broker's class path when None.

    Raises:
        MissingTool: There is no javac.
        RuntimeError: It does not compile; the text is javac's.
    """
    classpath = kafka_classpath() if classpath is None else classpath
    digest = hashlib.sha256(source.read_bytes() + classpath.encode()).hexdigest()[:16]
    jar = CACHE / "classes" / f"{source.stem}-{digest}.jar"  # not a folder: of one a JVM shares no classes
    if jar.is_file():
        return jar
    javac = _program("javac")
    if javac is None:
        raise MissingTool(f"javac is not installed: install a JDK, not only a JRE ({JDK_HINT})")
    with only_one_process("javac"):
        if jar.is_file():
            return jar  # another process was first
        with fresh_folder(jar) as fresh:
            classes, made = Path(fresh) / "classes", Path(fresh) / jar.name
            command = [javac, "-nowarn", "-proc:none", "-d", str(classes), "-cp", classpath, str(source)]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
            if answer.returncode != 0:
                raise RuntimeError(f"{source.name} does not compile:\n{answer.stderr}")
            with zipfile.ZipFile(made, "w") as archive:
                for path in sorted(classes.rglob("*.class")):
                    archive.write(path, path.relative_to(classes))
            made.rename(jar)
    return jar


@contextlib.contextmanager
def shared_classes(classpath: str) -> Iterator[list[str]]:
    """Give the options of a JVM that takes its classes, ready to use, from an archive: half the time of a short run.

    The first run for a class path writes the archive when it ends (class data sharing, JDK 13 and newer); a JVM that
    the archive does not fit goes on without it.
    """
    digest = hashlib.sha256(f"{java()}{classpath}".encode()).hexdigest()[:16]
    archive = CACHE / "classes" / f"shared-{digest}.jsa"
    quiet = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]  # else the JVM's warnings are in the output
    if archive.is_file():
        yield [*quiet, f"-XX:SharedArchiveFile={archive}"]
        return
    with fresh_folder(archive) as fresh:
        made = Path(fresh) / archive.name
        yield [*quiet, f"-XX:ArchiveClassesAtExit={made}"]
        if made.is_file():
            made.replace(archive)


@contextlib.contextmanager
def only_one_process(what: str) -> Iterator[None]:
    """Wait until no other process is inside with the same word.

    Processes of one run share .cache/, and Maven's own repository is not made for two writers at once. Whoever comes
    in looks again whether its work is done already. The lock goes with its process, however that ends.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _program(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    return shutil.which(name)


def _fetch(folder: Path, is_there: Callable[[], bool], goals: list[str]) -> None:
    """Let Maven copy jars into the folder: from its local repository when they are there, else from the network."""
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("Maven is not installed, it fetches Apache Kafka's jars: install it "
                          "(Debian: apt-get install maven)")
    java()  # says what to install when Maven would only say that JAVA_HOME is wrong
    with only_one_process("maven"):
        if is_there():
            return  # another process was first
        with fresh_folder(folder) as fresh:
            command = [maven, "-q", "-B", *goals, f"-DoutputDirectory={fresh}"]
            failure = _run_maven([*command, "--offline"], GIVE_UP_S)
            if failure is not None:
                failure = _run_maven(command, GIVE_UP_S)
            if failure is not None:
                raise MissingTool("Maven could not fetch Apache Kafka's jars, it needs a network or a filled ~/.m2 "
                                  f"({failure})")
            Path(fresh).rename(folder)


def _run_maven(command: list[str], timeout_s: int) -> str | None:
    """Run Maven; return None when it succeeded, else the first line of what it says."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False,
                                stdin=subprocess.DEVNULL, cwd=POM.parent)
    except subprocess.TimeoutExpired:
        return f"no answer within {timeout_s} s"
    if answer.returncode == 0:
        return None
    lines = [line for line in answer.stdout.splitlines() if "ERROR" in line] or ["no message"]
    return lines[0].replace("[ERROR]", "").strip()[:300]


def fresh_folder(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder beside the wanted one, or for the wanted file: it takes its name only when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fresh-", ignore_cleanup_errors=True)
