// Hosts whose clocks differ start the same nightly job from their crontabs: it runs once for each day of the schedule.
// Second tier because hosts wait for each other's clocks; run.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'
import { type Bench, bench, type Ended } from './support/cli.js'

const benches: Bench[] = []

/** One of the pages that recommend a line for crontabs. */
const page = (path: string) => readFileSync(join(root, path), 'utf8')
const [, schedule = '', line = ''] = /^(0 3 \* \* \*) (holdfast run .*)$/m.exec(page('docs/cli.md')) ?? []

interface Nights {
  /** A host starts the line at three o'clock by its own clock, whatever the time is elsewhere. */
  host(clock: string, crontab?: string): Promise<Ended>
  /** What has run. */
  ran(): string
}

/** @param work what nightly.sh does */
function nights(work = ''): Nights {
  const b = bench()
  benches.push(b)
  const job = join(b.folder, 'nightly.sh')
  writeFileSync(job, `#!/bin/sh\n${work}\necho "$HOLDFAST_NAME" >> ran\n`)
  chmodSync(job, 0o755)
  writeFileSync(join(b.folder, 'ran'), '')
  return {
    ran: () => readFileSync(join(b.folder, 'ran'), 'utf8'),
    host(clock, crontab = line) {
      const command = crontab.replaceAll('\\%', '%')
      return b.script(`date() { command date -d '${clock}' "$@"; }\n${command}`, { STORE: b.url }).ended
    },
  }
}

const silent = [0, '', '']
const said = ({ code, stdout, stderr }: Ended) => [code, stdout, stderr]

test('the pages recommend the same line', () => {
  assert.equal(schedule, '0 3 * * *')
  for (const path of ['docs/stories.md', 'docs/learn/7-stories.md', 'docs/zh/cli.md', 'docs/zh/stories.md'])
    assert.ok(page(path).includes(line), path)
})

test('hosts whose clocks reach the hour after the run has ended skip it, silently; the next night it runs again', async () => {
  const { host, ran } = nights()
  const three = '2026-11-24 03:00'
  // Its clock and those of two that are behind: when theirs show three, the first run is over.
  for (const clock of [three, three, three]) assert.deepEqual(said(await host(clock)), silent)
  assert.equal(ran(), 'nightly:2026-11-24\n')
  for (const clock of ['2026-11-25 03:00', '2026-11-25 03:00:59'])
    assert.deepEqual(said(await host(clock)), silent)
  assert.equal(ran(), 'nightly:2026-11-24\nnightly:2026-11-25\n')
  // One that is a day behind starts what was run the night before.
  assert.deepEqual(said(await host(three)), silent)
  assert.equal(ran(), 'nightly:2026-11-24\nnightly:2026-11-25\n')
})

test('hosts whose clocks reach the hour together: one runs it, the others are silent', async () => {
  const { host, ran } = nights('sleep 1')
  const all = await Promise.all([1, 2, 3].map(() => host('2026-11-24 03:00')))
  for (const ended of all) assert.deepEqual(said(ended), silent)
  assert.equal(ran(), 'nightly:2026-11-24\n')
})

test('a run that fails is not run again by another host', async () => {
  const { host, ran } = nights('echo tried >> ran; exit 3')
  assert.deepEqual((await host('2026-11-24 03:00')).code, 3)
  assert.deepEqual(said(await host('2026-11-24 03:00')), silent)
  assert.equal(ran(), 'tried\n')
})

test('a plain name: a host that is later than --min-hold runs it again, without --min-hold every host does', async () => {
  const { host, ran } = nights()
  const plain = line.replace('"nightly:$(date +\\%F)"', 'nightly')
  const short = plain.replace('--min-hold 1d', '--min-hold 500ms')
  await host('2026-11-24 03:00', short)
  await new Promise((resolve) => setTimeout(resolve, 600))
  await host('2026-11-24 03:00', short)
  assert.equal(ran(), 'nightly\nnightly\n')
  const none = plain.replace('nightly', 'other').replace('--min-hold 1d ', '')
  for (let at = 0; at < 3; at++) await host('2026-11-24 03:00', none)
  assert.equal(ran(), `nightly\nnightly\n${'other\n'.repeat(3)}`)
})

after(() => {
  for (const { close } of benches) close()
})
after(leakCheck)
