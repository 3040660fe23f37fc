// Whoever tidies up /tmp deletes single files of a directory in use, or an operator renames it. What is held stays held, by one holder.
import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createLocks, type Lease } from 'holdfast'
import { type LocalOptions, local } from 'holdfast/local'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { endAll, freshDirectory, now, start } from './processes.js'

/** A broker in another process, and `x`, held here. */
async function held(options: LocalOptions, ttl: number) {
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  const locks = createLocks(local(options))
  const lease = await locks.mutex('x').acquire({ ttl })
  return { broker, locks, lease }
}

/** A renewal finds out: no other command is needed. */
async function renewedUntil(lease: Lease, happened: () => boolean): Promise<void> {
  await until(async () => {
    await lease.extend()
    return happened()
  })
}

for (const socket of ['abstract', 'file'] as const) {
  describe(`in use over ${socket} sockets`, () => {
    test('a journal that is deleted alone is written again with the next renewal', async () => {
      const options = { directory: freshDirectory(), socket }
      const { broker, locks, lease } = await held(options, 60_000)
      const journal = join(options.directory, 'journal')
      unlinkSync(journal)
      await renewedUntil(lease, () => existsSync(journal))
      await broker.kill()
      assert.equal(await (await start(options)).tryAcquire('x'), undefined)
      assert.equal(await lease.release(), 'released')
      await locks.close()
    })

    for (const [how, spoil] of [
      ['emptied', (journal: string) => truncateSync(journal)],
      ['overwritten from a backup', (journal: string, backup: string) => copyFileSync(backup, journal)],
    ] as const)
      test(`a journal that is ${how} in its place is written again with the next renewal`, async () => {
        const options = { directory: freshDirectory(), socket }
        const broker = await start(options)
        await broker.acquire('who-runs-the-broker')
        const journal = join(options.directory, 'journal')
        const backup = `${options.directory}-backup`
        copyFileSync(journal, backup)
        const locks = createLocks(local(options))
        const lease = await locks.mutex('x').acquire({ ttl: 60_000 })
        spoil(journal, backup)
        await renewedUntil(lease, () => readFileSync(journal, 'utf8').includes('["g","x"'))
        await broker.kill()
        assert.equal(await (await start(options)).tryAcquire('x'), undefined)
        assert.equal(await lease.release(), 'released')
        await locks.close()
        rmSync(backup)
      })

    test('a directory that is renamed is made again with the next renewal', async () => {
      const options = { directory: freshDirectory(), socket }
      const { broker, locks, lease } = await held(options, 60_000)
      const elsewhere = `${options.directory}-moved`
      renameSync(options.directory, elsewhere)
      await renewedUntil(lease, () => existsSync(join(options.directory, 'journal')))
      const late = await start(options)
      assert.equal(await late.tryAcquire('x'), undefined)
      await broker.kill()
      assert.equal(await late.tryAcquire('x'), undefined)
      assert.equal(await lease.release(), 'released')
      await locks.close()
      rmSync(elsewhere, { recursive: true })
    })
  })
}

describe('in use over a socket file', () => {
  test('a file that names the socket and is restored from a backup stops nobody', async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const { broker, locks, lease } = await held(options, 60_000)
    const [file, backup] = [join(options.directory, 'broker-1'), join(options.directory, 'backup')]
    copyFileSync(file, backup)
    renameSync(backup, file)
    await broker.acquire('y')
    const newcomer = await start(options)
    assert.equal(await newcomer.tryAcquire('x'), undefined)
    assert.equal(await lease.release(), 'released')
    assert.ok(Number(await newcomer.tryAcquire('x')) > lease.token)
    await locks.close()
  })

  for (const [what, prefix] of [
    ['socket', 's-'],
    ['file that names the socket', 'broker-'],
    ['home file', 'home-'],
  ] as const) {
    test(`a ${what} that is deleted is made again: newcomers find the broker, and no second holder is let in`, async () => {
      const options = { directory: freshDirectory(), socket: 'file' } as const
      const ttl = 1_000
      const { locks, lease } = await held(options, ttl)
      const file = readdirSync(options.directory).find((name) => name.startsWith(prefix))
      unlinkSync(join(options.directory, file ?? ''))
      const newcomer = await start(options)
      await newcomer.acquire('y')
      let second = false
      const next = newcomer.acquire('x').then(() => {
        second = true
        assert.ok(!lease.isHeld, 'two holders')
      })
      const from = now()
      await until(() => second || now() > from + 2 * ttl)
      await lease.release()
      await next
      await locks.close()
    })
  }
})

after(endAll)
after(leakCheck)
