#!/bin/sh
# Ends what a test process started, however that process ends: usage `guardian.sh FOLDER`, stdin = a pipe from the owner.
#
# The kernel closes the pipe when the owner is gone, kill -9 included. Then everything that runs in FOLDER is killed and
# FOLDER removed. Servers are found by their working directory, not by a list of pids: no pid is missed in the moment
# between a spawn and its registration (a child just forked still holds the pipe until it runs the server, and by then it
# is in FOLDER), and no pid is used that may belong to someone else by now.
trap '' INT TERM HUP
cd /
cat >/dev/null
tries=100
while
  pids=$(find /proc -mindepth 2 -maxdepth 2 -name cwd \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null | cut -d/ -f3)
  [ -n "$pids" ] && [ $tries -gt 0 ]
do
  kill -9 $pids 2>/dev/null
  tries=$((tries - 1))
  sleep 0.02
done
rm -rf "$1"
