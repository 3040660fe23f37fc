// A command under `holdfast run` in the surroundings that cron, systemd, containers and careless scripts give it: it does what it does without.
// Second tier because each case starts a run; run.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill } from './support/cli.js'

const { folder, cli, script, left, close } = bench()
const file = (name: string) => join(folder, name)
const read = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '')

/** Lines of bash; RUN is nothing the first time, and `holdfast run` the second. */
const same: Readonly<Record<string, string>> = {
  'no home directory': `unset HOME; RUN sh -c 'echo "$HOME"'`,
  'a home directory that is not there': `HOME=/nonexistent RUN sh -c 'echo "$HOME"'`,
  'no folder for temporary files': `unset TMPDIR; RUN sh -c 'echo "$TMPDIR"'`,
  'a folder for temporary files that is not there': `TMPDIR=/nonexistent RUN sh -c 'echo "$TMPDIR"'`,
  'no variables but those of the store': `unset PATH LANG USER LOGNAME SHELL; RUN /bin/sh -c 'echo "$LANG$USER"; exit 3'`,
  'a closed standard input': `RUN sh -c 'echo out; exit 3' <&-`,
  'a closed standard output': `RUN sh -c 'echo err >&2; exit 3' 2>&1 >&-`,
  'a closed standard error': `RUN sh -c 'echo out; exit 3' 2>&-`,
  'nothing open': `RUN sh -c 'echo out > "$0"; exit 3' OUT <&- >&- 2>&-; echo $?; cat OUT`,
  'a full standard error': `RUN sh -c 'echo out; exit 3' 2>/dev/full`,
  'a narrow umask': 'umask 077; RUN sh -c umask',
  'a reader that goes away': `RUN yes | head -1; echo "\${PIPESTATUS[@]}"`,
  'a command that closes its output': `RUN sh -c 'echo out; exec >&-; exit 3'`,
  'a command that is killed': `RUN sh -c 'echo out; kill -9 $$'`,
  'arguments of any letters': `RUN printf '%s|' '' ' ' '*' '$HOME' $'a\\nb' '🔒' -- --wait`,
  'a program without a first line': `printf 'echo ran; exit 3' > plain; chmod +x plain; RUN ./plain`,
}

let runs = 0
for (const [what, line] of Object.entries(same))
  test(`${what}: output and exit code are those of the command`, async () => {
    runs += 1
    const told = async (run: string) => {
      const text = line.replace('RUN', run).replaceAll('OUT', `out-${runs}`)
      // Not as its last command, which bash would become.
      const { code, stdout } = await script(`${text}\nexit $?`).ended
      return { code, stdout }
    }
    assert.deepEqual(await told(`"$node" "$main" run 'same-${runs}' --no-wait --`), await told(''))
  })

test('an argument that Node cannot pass on as it is keeps the command from starting; U+FFFD itself is one', async () => {
  const one = await script(`holdfast run bytes -- echo a $'b\\xff'`).ended
  assert.deepEqual([one.code, one.stdout], [64, ''])
  assert.equal(
    one.stderr,
    'holdfast: argument 2 of the command is not UTF-8, and would reach it changed; put the command into a script, and run that\n',
  )
  const { code, stdout, stderr } = await cli('run', 'bytes', '--', 'echo', '\ufffd')
  assert.deepEqual([code, stdout, stderr], [0, '\ufffd\n', ''])
})

test('a lock may have any name but one with control characters, in up to 512 bytes', async () => {
  for (const name of ['🔒 Schloß', '.', '../x', '*', '$HOME', 'é'.repeat(256)]) {
    const { code, stdout, stderr } = await cli('run', name, '--', 'sh', '-c', 'printf %s "$HOLDFAST_NAME"')
    assert.deepEqual([code, stdout, stderr], [0, name, ''])
  }
  for (const name of ['a\nb', 'é'.repeat(512)]) {
    const { code, stdout, stderr } = await cli('run', name, '--', 'echo', 'ran')
    assert.deepEqual([code, stdout], [64, ''], stderr)
    assert.match(stderr, /^holdfast: lock name /)
  }
})

test('the longest and the shortest times are accepted, and no timer overflows', async () => {
  for (const option of ['--ttl=366d', '--ttl=25d', '--max-hold=366d', '--max-hold=25d', '--wait=366d']) {
    const { code, stdout, stderr } = await cli(
      'run',
      'times',
      option,
      '--',
      'sh',
      '-c',
      'sleep 0.3; echo ran',
    )
    assert.deepEqual([code, stdout, stderr], [0, 'ran\n', ''], option)
  }
  const { code, stdout } = await cli('run', 'times', '--wait', '0s', '--', 'echo', 'ran')
  assert.deepEqual([code, stdout], [0, 'ran\n'], 'a free lock needs no wait')
})

test('a command within nohup survives a hangup of its run, and keeps the lock', async () => {
  const wait = `echo > nohup-runs; while [ ! -e nohup-go ]; do sleep 0.02; done; echo end`
  const run = script(`exec "$0" "$1" run nohup -- nohup sh -c '${wait}'`)
  await until(() => existsSync(file('nohup-runs')), { within: 60_000 })
  kill(run.pid, 'SIGHUP')
  assert.equal((await cli('run', 'nohup', '--no-wait', '--', 'true')).code, 75)
  writeFileSync(file('nohup-go'), '')
  const { code, stdout } = await run.ended
  assert.deepEqual([code, stdout], [0, 'end\n'])
})

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const)
  test(`${signal} to the whole process group of a script ends the command of its run, and frees the lock`, async () => {
    const [name, commands] = [`group-${signal}`, `ulimit -c 0; echo > group-${signal}-runs; exec sleep 600`]
    const shell = script(
      `setsid bash -c 'echo $$ > ${name}; "$0" "$1" run ${name} -- sh -c "${commands}"; :' "$node" "$main"`,
    )
    await until(() => existsSync(file(`${name}-runs`)), { within: 60_000 })
    const group = Number(read(name))
    assert.ok(group > 1)
    kill(-group, signal)
    assert.equal((await cli('run', name, '--wait', '60s', '--', 'true')).code, 0)
    await shell.ended
  })

test('nothing is left running', async () => {
  await until(() => left().length === 0, { what: 'all processes in the folder to end', within: 60_000 })
})

after(close)
after(leakCheck)
