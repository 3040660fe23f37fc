# kazoo's Lock, told what to do by lines on stdin. See others.ts. Arguments: server, path, how.
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock


class CuratorNamed(Lock):
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def say(what):
    print(what, flush=True)


client = KazooClient(hosts=sys.argv[1], timeout=30)
client.start(timeout=60)
path, how = sys.argv[2:4]
if how == "plain":
    lock = Lock(client, path, "kazoo")
elif how == "patterns":
    lock = Lock(client, path, "kazoo", extra_lock_patterns=["lock-"])
else:
    lock = CuratorNamed(client, path, "kazoo")
say("ready")
for line in sys.stdin:
    words = line.split()
    if words[0] == "acquire":
        lock.acquire()
        say("acquired")
    elif words[0] == "try":
        try:
            say("acquired" if lock.acquire(timeout=float(words[1]) / 1000) else "busy")
        except LockTimeout:
            say("busy")
    elif words[0] == "release":
        lock.release()
        say("released")
    elif words[0] == "count":
        for _ in range(int(words[1])):
            lock.acquire()
            with open(words[2]) as file:
                seen = int(file.read())
            time.sleep(0.001)
            with open(words[2], "w") as file:
                file.write(str(seen + 1))
            lock.release()
        say("counted")
    elif words[0] == "rounds":
        begin = time.perf_counter()
        for _ in range(int(words[1])):
            lock.acquire()
            lock.release()
        say("took %f" % ((time.perf_counter() - begin) * 1000))
client.stop()
