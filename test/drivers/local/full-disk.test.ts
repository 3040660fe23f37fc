// A disk of its own, that is full but for the blocks of its files: what is in use can grow a little, and no new file has any content.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  readFileSync,
  rmSync,
  statfsSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { awaitStandstill } from '../../support/servers/process.js'
import { until } from '../../support/until.js'
import { endAll, freshDirectory, type Start, start } from './processes.js'
import { variable } from './stopping.js'

/** It takes a right that not every user has, nor every container. */
const mayMount = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
const node = process.execPath

/** Writes a file until the disk is full, and leaves room for so many blocks. */
function fill(file: string, left: number): void {
  const block = statfsSync(dirname(file)).bsize
  let size = 0
  try {
    for (;;) {
      writeFileSync(file, Buffer.alloc(block), { flag: 'a' })
      size += block
    }
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
  }
  truncateSync(file, size - left * block)
}

describe('a full disk', { skip: !mayMount }, () => {
  test('a broker that is overtaken there does not write into what the next one has written', async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const { directory } = options
    const mount = `mount -t tmpfs -o nr_blocks=32,mode=700 tmpfs ${directory}`
    const first: Start = {
      limit: `exec unshare --mount sh -c '${mount} && exec "$0" "$@"' ${node} --import ${new URL('./stopping.js', import.meta.url).pathname} "$0" "$@"`,
      env: { [variable]: 'writing' },
    }
    const broker = await start(options, first)
    const beside = () =>
      start(options, { limit: `exec nsenter --target ${broker.pid} --mount ${node} "$0" "$@"` })
    const inside = (file: string) => join(`/proc/${broker.pid}/root`, directory, file)
    await broker.acquire('who-runs-the-broker')
    const [client, next, holder] = [await beside(), await beside(), await beside()]
    const x = client.acquire('x', { ttl: 60_000 })
    await until(() => / T /.test(readFileSync(`/proc/${broker.pid}/stat`, 'latin1')))
    awaitStandstill(broker.pid)
    unlinkSync(inside('broker-1'))
    // For the file that names the next broker.
    fill(inside('filler'), 1)
    const refused = ({ code, message }: Error & { code: string }) => {
      assert.match(`${code} ${message}`, /^BACKEND .*nothing is granted: cannot write .*ENOSPC/)
      return undefined
    }
    await next.acquire('who-runs-the-next').catch(refused)
    const early = await holder.acquire('y', { ttl: 60_000 }).catch(refused)
    rmSync(inside('filler'))
    const y = early ?? (await holder.acquire('y', { ttl: 60_000 }))
    broker.go()
    // The next broker grants it, once the first has gone.
    await x
    // Only the journal tells who holds it.
    holder.stop()
    await next.kill()
    assert.equal(await (await beside()).tryAcquire('y'), undefined)
    holder.go()
    assert.equal(await holder.state(y), 'held')
    assert.equal(await holder.release(y), 'released')
  })

  test('a broker whose files are deleted there, and who cannot make them again yet, lets no second holder in', async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const { directory } = options
    const mount = `mount -t tmpfs -o nr_blocks=32,mode=700 tmpfs ${directory}`
    const broker = await start(options, {
      limit: `exec unshare --mount sh -c '${mount} && exec "$0" "$@"' ${node} "$0" "$@"`,
    })
    const beside = () =>
      start(options, { limit: `exec nsenter --target ${broker.pid} --mount ${node} "$0" "$@"` })
    const inside = (file: string) => join(`/proc/${broker.pid}/root`, directory, file)
    await broker.acquire('who-runs-the-broker')
    const holder = await beside()
    const held = await holder.acquire('x', { ttl: 60_000 })
    broker.stop()
    unlinkSync(inside('broker-1'))
    unlinkSync(inside('journal'))
    fill(inside('filler'), 0)
    broker.go()
    await assert.rejects(holder.tryAcquire('y'))
    rmSync(inside('filler'))
    await until(() => existsSync(inside('broker-1')))
    const newcomer = await beside()
    await newcomer.acquire('z')
    assert.equal(await newcomer.tryAcquire('x'), undefined)
    assert.equal(await holder.state(held), 'held')
    assert.equal(await holder.release(held), 'released')
  })
})

after(endAll)
after(leakCheck)
