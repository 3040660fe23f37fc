// Nonsensical input is refused with its name, the value and the remedy, before anything is started or locked.
// Second tier because each input starts the command line; connect.test.ts and duration.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench } from './support/cli.js'

const { folder, cli, left, close } = bench()
writeFileSync(join(folder, 'plain.txt'), 'no program')

const command = ['--', 'touch', join(folder, 'ran')]
const long = 'x'.repeat(513)

const refused: readonly [what: string, args: string[], code: number, complaint: RegExp][] = [
  [
    'a run without --',
    ['run', 'x', 'sleep', '5'],
    64,
    /the command to run goes after --, as in: holdfast run x -- /,
  ],
  ['options of the command without --', ['run', 'x', 'ls', '-l'], 64, /the command to run goes after --/],
  ['a run without a name', ['run', ...command], 64, /missing required argument 'name'/],
  ['a run without a command', ['run', 'x', '--'], 64, /there is no command after '--'/],
  [
    'a name that is there twice',
    ['run', 'x', 'y', 'x', ...command],
    64,
    /the lock "x" is named twice; name it once/,
  ],
  ['a bad name among several', ['run', 'x', '', ...command], 64, /lock name must not be empty/],
  [
    'an option after --',
    ['run', 'x', '--', '--wait', '5s'],
    64,
    /'--wait' after '--' is no command; options .* before/,
  ],
  [
    'a command that is not there',
    ['run', 'x', '--', 'no-such-command'],
    127,
    /command not found: no-such-command/,
  ],
  ['a path that is not there', ['run', 'x', '--', './nowhere'], 127, /command not found: \.\/nowhere/],
  [
    'a file that cannot be run',
    ['run', 'x', '--', './plain.txt'],
    126,
    /plain\.txt is not executable; chmod \+x it/,
  ],
  ['a directory as a command', ['run', 'x', '--', '/tmp'], 126, /\/tmp is a directory; name a program in it/],
  [
    'a duration without a unit',
    ['run', 'x', '--wait', '5', ...command],
    64,
    /--wait needs a unit, got '5'; did you mean 5s/,
  ],
  [
    'a negative duration',
    ['run', 'x', '--max-hold', '-5s', ...command],
    64,
    /--max-hold must be a duration .*got '-5s'/,
  ],
  [
    'an absurd duration',
    ['run', 'x', '--wait', '99999h', ...command],
    64,
    /--wait is at most 366d, got '99999h'/,
  ],
  [
    'a ttl that leaves no time',
    ['run', 'x', '--ttl', '100ms', ...command],
    64,
    /--ttl must be at least 1s, got '100ms'/,
  ],
  [
    'a --kill-after that does not fit',
    ['run', 'x', '--kill-after', '25s', ...command],
    64,
    /--kill-after 25s does not fit into --ttl 30s/,
  ],
  [
    'permits without a total',
    ['run', 'x', '--permits', '3', ...command],
    64,
    /--permits must be n\/N, .*got '3'/,
  ],
  [
    'more permits than there are',
    ['run', 'x', '--permits', '4/3', ...command],
    64,
    /from 1 to 3 of 3, got '4\/3'/,
  ],
  ['no permits', ['run', 'x', '--permits', '0/3', ...command], 64, /from 1 to 3 of 3, got '0\/3'/],
  [
    'too many permits',
    ['run', 'x', '--permits', '1/2000000', ...command],
    64,
    /integer from 1 to 1000000, got 2000000/,
  ],
  [
    'two modes',
    ['run', 'x', '--shared', '--permits', '1/2', ...command],
    64,
    /--shared and --permits exclude each other/,
  ],
  [
    'two waits',
    ['run', 'x', '--no-wait', '--wait', '2s', ...command],
    64,
    /--wait and --no-wait exclude each other; leave out one/,
  ],
  [
    'two waits, the other way round',
    ['run', 'x', '--wait', 'forever', '--no-wait', ...command],
    64,
    /--wait and --no-wait exclude each other; leave out one/,
  ],
  [
    'two waits of a hold',
    ['hold', 'x', '--wait=2s', '--no-wait', '--for', '1'],
    64,
    /--wait and --no-wait exclude each other; leave out one/,
  ],
  [
    'an exit code out of range',
    ['run', 'x', '-E', '256', ...command],
    64,
    /--conflict-exit-code must be a number from 0 to 255/,
  ],
  ['an empty name', ['run', '', ...command], 64, /lock name must not be empty/],
  ['a huge name', ['run', long, ...command], 64, /is 513 bytes long; the limit is 512/],
  [
    'a name with control characters',
    ['run', 'a\nb', ...command],
    64,
    /has the control character U\+000A at 1/,
  ],
  [
    'a note that is too long',
    ['run', 'x', '--note', 'n'.repeat(300), ...command],
    64,
    /note is 300 bytes long; the limit is 256/,
  ],
  [
    'an unknown scheme',
    ['run', 'x', '--on', 'reddis://h', ...command],
    64,
    /unknown scheme 'reddis:'; known are local:/,
  ],
  [
    'a store for one process',
    ['run', 'x', '--on', 'memory:', ...command],
    64,
    /memory: locks live inside one process/,
  ],
  ['an unknown command', ['rum', 'x'], 64, /unknown command 'rum'\n\(Did you mean run\?\)/],
  [
    'an unknown option',
    ['run', 'x', '--wiat', '5s', ...command],
    64,
    /unknown option '--wiat'\n\(Did you mean --wait\?\)/,
  ],
  ['inspect without a name', ['inspect'], 64, /missing required argument 'name'/],
  ['inspect of a bad name', ['inspect', ''], 64, /lock name must not be empty/],
  [
    'too few workers',
    ['demo', '--workers', '1'],
    64,
    /--workers must be a whole number from 2 to 32, got '1'/,
  ],
  [
    'orders that are not there',
    ['demo', '--orders', 'nowhere.json'],
    64,
    /cannot read orders from .*nowhere\.json/,
  ],
]
for (const [what, args, expected, complaint] of refused) {
  test(`${what} is refused`, async () => {
    const { code, stdout, stderr } = await cli(...args)
    assert.match(stderr, complaint)
    assert.match(stderr, /^holdfast: /)
    assert.equal(code, expected)
    assert.equal(stdout, '')
    assert.doesNotMatch(stderr, /\n {4}at /, 'a stack is no message')
    assert.equal(existsSync(join(folder, 'ran')), false)
  })
}

test('nothing that was started for what was refused is left', async () => {
  await cli('run', 'x', '--wat', ...command)
  await until(() => left().length === 0, { what: 'all processes to end' })
})

test('after -- every word is a name, and none is dropped', async () => {
  const told: readonly [args: string[], code: number, stdout: RegExp][] = [
    [['inspect', '--', '-x'], 0, /^"-x" is free/],
    [['inspect', '--json', '--', '--json'], 0, /"name":"--json"/],
    [['release', '--yes', '--', '-x'], 1, /^"-x" was not held/],
    [['ls', '--', '-x'], 0, /begins with "-x"/],
  ]
  for (const [args, code, stdout] of told) {
    const said = await cli(...args)
    assert.equal(said.code, code, said.stderr)
    assert.match(said.stdout, stdout)
  }
})

test('an argument too many is named, with the remedy, and nothing of a URL is repeated', async () => {
  const once = 'call it once for each, and quote what contains blanks'
  const told: readonly [args: string[], complaint: string][] = [
    [
      ['hold', 'a', 'b', '--for', '1'],
      'hold takes one lock, got "a", "b"; holdfast run takes several at once: holdfast run NAME… -- ./script.sh',
    ],
    [['inspect', '--', 'a', 'b'], `inspect takes one lock, got "a", "b"; ${once}`],
    [['release', 'a', 'b', '--yes'], `release takes one lock, got "a", "b"; ${once}`],
    [['ls', 'a', 'b'], `ls takes one prefix, got "a", "b"; ${once}`],
    [['help', 'run', 'ls'], `help takes one command, got "run", "ls"; ${once}`],
    [['doctor', 'prod'], 'doctor takes no argument, got "prod"; a store goes after --on'],
    [['ls', 'a', 'redis://:secret@127.0.0.1'], 'ls takes one prefix; a store goes after --on'],
    [['advise', 'redis'], 'advise takes no argument, got "redis"; leave it out'],
  ]
  for (const [args, complaint] of told) {
    const { code, stdout, stderr } = await cli(...args)
    assert.deepEqual([code, stdout, stderr], [64, '', `holdfast: ${complaint}\n`])
    if (!['hold', 'doctor'].includes(args[0] ?? '')) continue
    const json = await cli(...args, '--json')
    const { error } = JSON.parse(args[0] === 'hold' ? json.stderr : json.stdout)
    assert.deepEqual([json.code, error.code, error.message], [64, 'BAD_INPUT', complaint])
  }
})

test('help is no error, and tells every command', async () => {
  const { code, stdout } = await cli('--help')
  assert.equal(code, 0)
  for (const name of ['run', 'ls', 'inspect', 'release', 'demo'])
    assert.match(stdout, new RegExp(`^  ${name} `, 'm'))
  assert.equal((await cli('run', '--help')).code, 0)
  assert.match((await cli('--version')).stdout, /^\d+\.\d+\.\d+\n$/)
})

test('no command at all shows help, and is an error', async () => {
  const { code, stderr } = await cli()
  assert.equal(code, 64)
  assert.match(stderr, /^Usage: holdfast/)
})

after(close)
after(leakCheck)
