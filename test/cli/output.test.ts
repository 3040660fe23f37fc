// Where the output goes: a reader that closes early is no failure, a full disk is one.
// Second tier because it runs every command into a closed pipe and a full disk.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { bench } from './support/cli.js'

const { script, close } = bench()

const commands = [
  ...['--help', 'run --help', 'help run', '--version', '-V', 'completion bash', 'doctor', 'doctor --json'],
  ...[
    'ls',
    'ls --json',
    'ls --wrong --json',
    'inspect x',
    'inspect x --json',
    'top --once',
    'top --once --json',
  ],
  ...['advise --machines one --run none --double costly --section 1s --waiters 1'],
  ...['schema --on postgres://x/y', 'schema --on mysql://x/y'],
]
/** Those that end with another code than 0. */
const codes: Readonly<Record<string, number>> = { 'ls --wrong --json': 64 }

test('a reader that closes the pipe crashes no command', async () => {
  for (const command of commands) {
    const { stdout, stderr } = await script(
      `exec 3>&1; { sleep 0.2; holdfast ${command}; echo "code $?" >&3; } | true`,
    ).ended
    assert.deepEqual([stdout, stderr], [`code ${codes[command] ?? 0}\n`, ''], command)
  }
})

test('output that cannot be written is reported, with an exit code', async (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /dev/full')
  for (const command of commands) {
    const { code, stderr } = await script(`holdfast ${command} > /dev/full`).ended
    assert.match(stderr, /^holdfast: the standard output cannot be written: ENOSPC/, command)
    assert.equal(code, 74, command)
  }
})

test('a run ends with the code of its command wherever the output goes', async () => {
  const { stdout } = await script(
    'holdfast run a -- sh -c "exit 7" > /dev/null 2>&1 3>&1; echo $?; holdfast run a --json -- true 2>/dev/full; echo $?',
  ).ended
  assert.equal(stdout, '7\n0\n')
})

after(close)
after(leakCheck)
