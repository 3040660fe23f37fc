/**
 * The shell scripts of `holdfast run`, for any /bin/sh. The command is passed as arguments, never pasted into a script. Variables set
 * before the command starts have our own names: any other could be in the environment, and the command would see it changed.
 */

/**
 * The gate. It keeps the command from its first instruction until the lock process knows the process group to end.
 *
 * Arguments: the command. `line`, in: `go` opens the gate; end of input (the supervisor died or changed its mind) ends the gate.
 * Result: the command's own, in the gate's process.
 *
 * @param line a descriptor from 3 to 9 that the command does not get from the caller
 */
export const gate = (line: number) => `
read -r HOLDFAST_GATE <&${line}
[ "$HOLDFAST_GATE" = go ] || exit 125
exec "$@" ${line}<&-
`

/**
 * The same on a terminal, as a job: `set -m` gives the command its own process group *and* the terminal, which Node cannot do.
 * The command reads the terminal; only the command receives ^C and ^Z.
 *
 * Arguments: as $0 the shell to start the command with, a flag for it, the command. `line`, in: as for the gate. `jobs`, out: `group N` before
 * the gate waits, or `no jobs` if this shell cannot do it; `stopped` each time the job was stopped; `code N` before it ends after `bg`.
 * `jobs`, in, after `stopped`: `fg` or `bg`.
 * Result: the command's exit code, 128 + n for signal n; after `bg`, the `N` of `code N`.
 *
 * A shell that manages jobs takes the terminal when it exits. While another group has it, as the user's shell after `bg`, that shell would
 * read an end of input and exit, too: then this one ends by KILL, which leaves the terminal alone.
 *
 * fd 2 must be the terminal while the job has it (bash gives the terminal away and takes it back through fd 2), so the command's own waits
 * in `errors`.
 *
 * @param line and the others: descriptors as for the gate
 */
export const job = (line: number, jobs: number, errors: number) => `
exec ${errors}>&2 2>/dev/tty
set -m
case $- in
  *m*) ;;
  *) echo no jobs >&${jobs}; exit 125 ;;
esac
"$0" "$1" -c '
  shift
  echo "group $$" >&${jobs}
  read -r HOLDFAST_GATE <&${line}
  [ "$HOLDFAST_GATE" = go ] || exit 125
  exec "$@" 2>&${errors} ${line}>&- ${jobs}>&- ${errors}>&-
' sh "$@"
code=$?
how=fg
while kill -0 %1 2>/dev/null; do
  echo stopped >&${jobs}
  read -r how <&${jobs} || kill -s KILL $$
  if [ "$how" = fg ]; then
    exec 2>/dev/tty
    fg %1 >/dev/null
  else
    exec 2>/dev/null
    bg %1 >/dev/null
    wait %1
  fi
  code=$?
done
[ "$how" = fg ] && exit "$code"
echo "code $code" >&${jobs}
kill -s KILL $$
`

/**
 * The last resort: ends the group if supervisor and lock process are both gone without reporting the end of the run.
 *
 * stdin, held open by supervisor and lock process: the process group, then anything once the run is over. End of input before that means KILL.
 */
export const watcher = `
trap '' HUP INT TERM
read -r group || exit 0
read -r over || kill -s KILL -- "-$group"
`
