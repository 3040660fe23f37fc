// `holdfast verify` on real stores: sound, weakly set up, badly set up, and one that is not there.
// Second tier because it runs parts of the conformance suite and of the fault lab on several servers.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Order, Task } from '../../src/cli/verify/worker.js'
import { leakCheck } from '../support/leaks.js'
import { startMany, startRedis } from '../support/servers/redis.js'
import { bench } from './support/cli.js'

/** A part of the conformance suite with a cable, a crash and a loss in it; all of it takes minutes. */
const part = 'exclusion,a crash,losing a lease'

const scenes: (readonly [
  name: string,
  url: () => Promise<readonly [url: string, stop: () => Promise<void>]>,
  verdict: RegExp,
])[] = [
  ['the embedded driver', async () => ['', async () => undefined], /: sound$/],
  [
    'a Redis server that keeps nothing on disk',
    async () => {
      const server = await startRedis()
      return [server.url, () => server.stop()]
    },
    /: weak$/,
  ],
  [
    'a Redis server that may drop locks',
    async () => {
      const server = await startRedis({
        persistence: 'aof-always',
        args: ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'],
      })
      return [server.url, () => server.stop()]
    },
    /: unsound$/,
  ],
  [
    'three servers for Redlock',
    async () => {
      const group = await startMany(3, { persistence: 'aof-always' })
      const hosts = group.servers.map(({ host, port }) => `${host}:${port}`).join(',')
      return [`redlock://${hosts}`, () => group.stop()]
    },
    /: sound$/,
  ],
]

test('a process of the fault run that is told to stop before it has started stops', async () => {
  const b = bench()
  const task: Task = { url: b.url, insecure: false, folder: b.folder, prefix: 'early/', ttl: 1_000 }
  const worker = fork(fileURLToPath(new URL('../../src/cli/verify/worker.js', import.meta.url)), [], {
    execArgv: [],
  })
  try {
    worker.send(task)
    worker.send({ do: 'stop' } satisfies Order)
    await once(worker, 'exit', { signal: AbortSignal.timeout(20_000) })
    assert.equal(worker.exitCode, 0)
  } finally {
    worker.kill('SIGKILL')
    b.close()
  }
})

describe('holdfast verify', { concurrency: 2 }, () => {
  for (const [name, open, verdict] of scenes) {
    it(`tells of ${name}`, async () => {
      const [url, stop] = await open()
      const b = bench(url === '' ? undefined : url)
      try {
        const { code, stdout, stderr } = await b.cli(
          'verify',
          '--minutes',
          '0.1',
          '--only',
          part,
          '--out',
          'report',
        )
        const [title = ''] = stdout.split('\n')
        assert.match(title, verdict, stdout + stderr)
        assert.equal(code, title.endsWith('unsound') ? 1 : 0)
        assert.match(stdout, /\d\d tests passed, 0 failed/)
        assert.match(stdout, /\*\*0 violations\*\*/)
        const report = JSON.parse(readFileSync(join(b.folder, 'report/report.json'), 'utf8'))
        // The time of the run begins when each of its four processes was granted something.
        assert.ok(report.faults.granted >= 4, `${report.faults.granted} acquisitions only`)
        assert.ok(report.faults.commands >= 1, 'no command of holdfast run ran')
        assert.equal(readFileSync(join(b.folder, 'report/report.md'), 'utf8'), stdout)
        const eviction = report.setup.find((check: { what: string }) => check.what === 'eviction')
        if (name.includes('drop')) assert.equal(eviction.verdict, 'bad')
        // Nothing is left that anybody can see. Redlock has no list of locks.
        if (!url.startsWith('redlock'))
          assert.match((await b.cli('ls')).stdout, /^no lock is held or waited for/)
      } finally {
        b.close()
        await stop()
      }
    })
  }

  it('refuses nonsense before any I/O, and says where a store is that is not there', async () => {
    const b = bench('redis://127.0.0.1:1')
    try {
      const wrong = await b.cli('verify', '--minutes', 'soon')
      assert.equal(wrong.code, 64)
      assert.match(wrong.stderr, /--minutes must be a number above 0 and up to 1440, got 'soon'/)
      const gone = await b.cli('verify')
      assert.equal(gone.code, 69)
      assert.match(gone.stderr, /redis:\/\/127\.0\.0\.1:1/)
    } finally {
      b.close()
    }
  })
})

after(leakCheck)
