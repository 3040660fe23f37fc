// The test servers themselves: each feature that other tests rely on, shown on a real server.
// Second tier because the servers of the tests seldom change.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline/promises'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { leakCheck } from './support/leaks.js'
import { type Flavour, type RedisServer, startMany, startRedis } from './support/servers/redis.js'
import { until } from './support/until.js'

const flavours: readonly Flavour[] = ['redis7', 'redis8', 'valkey8']
const version = { redis7: /redis_version:7\.0/, redis8: /redis_version:8\.0/, valkey8: /valkey_version:8\.1/ }
const owner = new URL('./support/servers/owner.js', import.meta.url)

/** Whether nothing comes of the promise for a while. */
const hangs = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => false), sleep(150, true)])

/** Whether the process runs; one that is dead and waits for its parent to notice does not. */
function exists(pid: number): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch (error) {
    assert.match(String((error as NodeJS.ErrnoException).code), /ENOENT|ESRCH/)
    return false
  }
}

const timeOf = async (server: RedisServer): Promise<number> => {
  const [seconds, micros] = (await server.cli('TIME')) as string[]
  return Number(seconds) * 1000 + Number(micros) / 1000
}

describe('a Redis server', { concurrency: false }, () => {
  for (const flavour of flavours) {
    it(`comes up as ${flavour} in a folder of its own and leaves nothing behind`, async () => {
      const server = await startRedis({ flavour })
      assert.match(String(await server.cli('INFO', 'server')), version[flavour])
      assert.match(String(await server.cli('INFO', 'server')), new RegExp(`process_id:${server.pid}\\r`))
      assert.deepEqual(await server.cli('CONFIG', 'GET', 'bind'), ['bind', '127.0.0.1'])
      const { pid } = server
      await Promise.all([server.stop(), server.stop()])
      assert.equal(exists(pid), false)
      assert.equal(existsSync(server.folder), false)
      await assert.rejects(server.cli('PING'), /ECONNREFUSED/)
      await assert.rejects(server.restart(), /stopped for good/)
    })

    it(`keeps or forgets its data over kill -9 and restart as ${flavour}`, async () => {
      await using server = await startRedis({ flavour, persistence: 'aof-always' })
      const { pid } = server
      await server.cli('SET', 'a', 1)
      await server.kill9()
      assert.equal(server.running, false)
      assert.equal(exists(pid), false)
      assert.throws(() => server.pid, /is down/)
      await server.restart()
      assert.notEqual(server.pid, pid)
      assert.equal(await server.cli('GET', 'a'), '1')
      await server.restart({ keepData: false })
      assert.equal(await server.cli('GET', 'a'), null)
    })

    it(`moves its wall clock as ${flavour}, and expires keys by it`, async () => {
      await using server = await startRedis({ flavour, preload: ['clock'] })
      await server.cli('SET', 'short', 1, 'PX', 60_000)
      await server.cli('SET', 'long', 1, 'PX', 600_000)
      const offBy = async (ms: number) => {
        const before = Date.now()
        const time = (await timeOf(server)) - ms
        assert.ok(time > before - 1000 && time < Date.now() + 1000, `off by ${time - before} ms more`)
      }
      await offBy(0)
      server.clockJump(120_000)
      await offBy(120_000)
      assert.equal(await server.cli('EXISTS', 'short'), 0)
      server.clockJump(-420_500)
      await offBy(-300_500)
      assert.ok(Number(await server.cli('PTTL', 'long')) > 880_000)
      await server.restart()
      await offBy(-300_500)
    })

    it(`loses acknowledged writes in a power cut with appendfsync everysec as ${flavour}`, async () => {
      await using server = await startRedis({ flavour, persistence: 'aof-everysec', preload: ['power'] })
      await using client = await server.client()
      let acknowledged = 0
      // Until the server is paused with writes it acknowledged and did not sync: then the outcome is certain.
      const exposed = async (): Promise<boolean> => {
        server.resume()
        const batch = Array.from({ length: 1000 }, () => client.send('RPUSH', 'list', ++acknowledged))
        await Promise.all(batch)
        server.pause()
        return server.unsynced() > 0 && acknowledged > 5000
      }
      await until(exposed, { what: 'acknowledged writes that are not synced' })
      await server.powerCut()
      await server.restart()
      const kept = Number(await server.cli('LLEN', 'list'))
      assert.ok(kept < acknowledged, `all ${acknowledged} acknowledged writes survived`)
      // A half-written command at the cut is dropped by Redis itself: what is left is a prefix.
      if (kept > 0) assert.equal(await server.cli('LINDEX', 'list', -1), String(kept))
    })
  }

  it('loses nothing in a power cut with appendfsync always', async () => {
    await using server = await startRedis({ persistence: 'aof-always', preload: ['power'] })
    await using client = await server.client()
    await Promise.all(Array.from({ length: 2000 }, (_, index) => client.send('RPUSH', 'list', index)))
    assert.equal(server.unsynced(), 0)
    await server.powerCut()
    await server.restart()
    assert.equal(await server.cli('LLEN', 'list'), 2000)
  })

  it('hangs while paused and answers when it goes on', async () => {
    await using server = await startRedis()
    await using client = await server.client()
    server.pause()
    const answer = client.send('PING')
    assert.equal(await hangs(answer), true)
    server.resume()
    assert.equal(await answer, 'PONG')
  })

  it('refuses faults it was not prepared for, naming the remedy', async () => {
    await using server = await startRedis()
    assert.throws(() => server.clockJump(1), /preload: \['clock'\]/)
    assert.throws(() => server.unsynced(), /preload: \['power'\]/)
    await assert.rejects(server.powerCut(), /preload: \['power'\]/)
    assert.equal(await server.cli('PING'), 'PONG')
  })

  it('says why it does not come up', async () => {
    await assert.rejects(
      startRedis({ args: ['--no-such-option', '1'] }),
      /redis7 server on port \d+ ended.*no-such-option/s,
    )
    await using first = await startRedis()
    await assert.rejects(startRedis({ port: first.port }), /address already in use/i)
    assert.equal(await first.cli('PING'), 'PONG')
  })

  it('comes in numbers that know nothing of each other', async () => {
    await using group = await startMany(5)
    const ids = await Promise.all(group.servers.map((server) => server.cli('INFO', 'server')))
    assert.equal(new Set(ids.map((info) => /run_id:(\w+)/.exec(String(info))?.[1])).size, 5)
    assert.equal(new Set(group.urls).size, 5)
  })
})

describe('servers and the process that started them', { concurrency: false }, () => {
  interface Started {
    readonly pids: readonly number[]
    readonly folders: readonly string[]
  }
  const areGone = ({ pids, folders }: Started) => !pids.some(exists) && !folders.some(existsSync)

  it('die with it and leave no folder, even when it is killed with -9 while they are paused', async () => {
    const child = spawn(process.execPath, [owner.pathname], { stdio: ['ignore', 'pipe', 'inherit'] })
    const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
    const started = JSON.parse(value) as Started
    assert.equal(started.pids.every(exists), true)
    process.kill(started.pids[0] as number, 'SIGSTOP')
    child.kill('SIGKILL')
    await until(() => areGone(started), { what: 'the servers to be gone' })
  })

  it('die with the worker thread', async () => {
    const worker = new Worker(owner)
    const started = await new Promise<Started>((resolve) => worker.once('message', resolve))
    assert.equal(started.pids.every(exists), true)
    await worker.terminate()
    await until(() => areGone(started), { what: 'the servers to be gone' })
  })

  it('can be forgotten without keeping it alive', async () => {
    const code = `await (await import('${new URL('./support/servers/redis.js', import.meta.url)}')).startRedis()`
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' })
    assert.equal(await new Promise((resolve) => child.once('exit', resolve)), 0)
  })
})

it('a port nobody listens on refuses at once', async () => {
  const server = await startRedis()
  await server.stop()
  const socket = connect(server.port, '127.0.0.1')
  const error = await new Promise<NodeJS.ErrnoException>((resolve) => socket.once('error', resolve))
  assert.equal(error.code, 'ECONNREFUSED')
})

after(leakCheck)
