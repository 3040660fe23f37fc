/**
 * The shell scripts of `holdfast run`, for /bin/sh of any kind. The command is passed as arguments, never pasted into a script.
 */

/**
 * The gate. It keeps the command from its first instruction until the keeper knows the process group it would have to end.
 *
 * Arguments: the command. fd 3, in: `go` opens the gate; its end (the front died or changed its mind) ends the gate.
 * Result: the command's own, in the gate's process.
 */
export const gate = `
read -r go <&3
[ "$go" = go ] || exit 125
exec "$@" 3<&-
`

/**
 * The same on a terminal, as a job: `set -m` gives the command a process group of its own *and* the terminal, which Node cannot.
 * The command reads the terminal, ^C and ^Z go to it and to nobody else.
 *
 * Arguments: the command. fd 3, in: as for the gate. fd 4, out: `group N` before the gate waits, or `no jobs` if this shell cannot do
 * it; `stopped` each time the job was stopped. fd 4, in, after `stopped`: `fg` or `bg`.
 * Result: the command's exit code, 128 + n for signal n.
 *
 * fd 2 must be the terminal while jobs are managed (bash gives the terminal away through it), so the command's own waits in fd 5.
 */
export const job = `
exec 5>&2 2>/dev/tty
set -m
case $- in
  *m*) ;;
  *) echo no jobs >&4; exit 125 ;;
esac
sh -c '
  echo "group $$" >&4
  read -r go <&3
  [ "$go" = go ] || exit 125
  exec "$@" 2>&5 3>&- 4>&- 5>&-
' sh "$@"
code=$?
while kill -0 %1 2>/dev/null; do
  echo stopped >&4
  read -r how <&4 || exit "$code"
  if [ "$how" = fg ]; then
    fg %1 >/dev/null
  else
    bg %1 >/dev/null
    wait %1
  fi
  code=$?
done
exit "$code"
`

/**
 * The last resort: ends the group when front and keeper are both gone without having said that it is over.
 *
 * stdin, held open by front and keeper: the process group, then anything once it is over. Its end before that means KILL.
 */
export const watcher = `
trap '' HUP INT TERM
read -r group || exit 0
read -r over || kill -s KILL -- "-$group"
`
