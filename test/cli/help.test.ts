// Help, manual pages, and suggestions for typing errors.
// Second tier because it runs every command for its help; print.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nearest } from '../../src/cli/nearest.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill } from './support/cli.js'

const { cli, start, close } = bench()

test('--help has examples and the table of exit codes', async () => {
  for (const args of [['--help'], ['run', '--help']]) {
    const { code, stdout } = await cli(...args)
    assert.equal(code, 0)
    assert.match(stdout, /^Examples:\n {2}holdfast run deploy -- make deploy {2}/m)
    for (const exit of ['0', '64', '69', '70', '75', '76', '124', '126', '127'])
      assert.match(stdout, new RegExp(`^  ${exit} +\\S`, 'm'))
  }
  assert.match((await cli('release', '--help')).stdout, /^ {2}1 +nobody held the lock/m)
})

test('help of every command is a page of a manual with its options, codes and examples', async () => {
  const names: string[] = (await cli('--help')).stdout.match(/(?<=^ {2})[a-z]+(?= (\[|<))/gm) ?? []
  assert.ok(names.includes('run') && names.includes('help') && names.length > 6, `${names}`)
  const pages = await Promise.all(names.map((name) => cli('help', name)))
  for (const [i, { code, stdout, stderr }] of pages.entries()) {
    assert.deepEqual([code, stderr], [0, ''])
    assert.match(stdout, new RegExp(`^NAME\n       holdfast ${names[i]} - \\S`))
    for (const title of ['SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'EXIT STATUS'])
      assert.match(stdout, new RegExp(`^${title}\n {7}\\S`, 'm'))
    assert.ok(
      stdout.split('\n').every((line) => line.length <= 80),
      stdout,
    )
  }
  const run = pages[names.indexOf('run')]?.stdout ?? ''
  assert.match(run, /^ENVIRONMENT\n {7}HOLDFAST_URL\n/m)
  assert.match(run, /^EXAMPLES\n {7}holdfast run deploy -- make deploy\n/m)
  assert.match(run, /^ {7}75\n {11}the lock was not free in time/m)
})

test('no help offers what is refused', async () => {
  for (const args of [['--help'], ['help', 'run'], ['help', 'ls']])
    assert.doesNotMatch((await cli(...args)).stdout, /memory/)
  assert.doesNotMatch((await cli('ls', '--on', 'nowhere:')).stderr, /memory/)
})

const slips: readonly [args: string[], meant: RegExp][] = [
  [['inspct', 'x'], /\(Did you mean inspect\?\)/],
  [['help', 'rnu'], /^holdfast: there is no command 'rnu'; did you mean 'run'\?\n$/],
  [['help', 'nothing'], /^holdfast: there is no command 'nothing'\n$/],
  [['ls', '--jsn'], /\(Did you mean --json\?\)/],
  [['run', 'x', '--max-hodl', '5s', '--', 'true'], /\(Did you mean --max-hold\?\)/],
  [['ls', '--on', 'reids://h'], /unknown scheme 'reids:'; .*; did you mean 'redis:'\?\n$/],
]
for (const [args, meant] of slips) {
  test(`holdfast ${args.join(' ')}: what was meant is offered`, async () => {
    const { code, stderr } = await cli(...args)
    assert.match(stderr, meant)
    assert.equal(code, 64)
  })
}

test('the nearest word is one that a slip of the fingers makes of it', () => {
  const known = ['prod', 'staging', 'ci']
  assert.equal(nearest('prdo', known), 'prod')
  assert.equal(nearest('Prod', known), 'prod')
  assert.equal(nearest('stagin', known), 'staging')
  assert.equal(nearest('production', known), undefined)
  assert.equal(nearest('x', known), undefined)
  assert.equal(nearest('', known), undefined)
})

test('-q says nothing of a lock that is busy', async () => {
  const holder = start('run', 'quiet', '--', 'sleep', '60')
  await until(async () => (await cli('inspect', 'quiet', '--json')).stdout.includes('attempt'), {
    within: 60_000,
  })
  for (const how of [['--no-wait'], ['--wait', '1500ms']]) {
    const { code, stdout, stderr } = await cli('run', 'quiet', '-q', ...how, '--', 'true')
    assert.deepEqual([code, stdout, stderr], [75, '', ''])
  }
  kill(holder.pid, 'SIGTERM')
  await holder.ended
})

after(close)
after(leakCheck)
