// Somebody binds the name of a directory's broker before a broker does: another user, or the same one.
// Second tier because it starts processes of several users for most of a minute.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, describe, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { fixedAddress } from '../../../src/drivers/local/address.js'
import { findSocketHolder } from '../../../src/drivers/local/holder.js'
import { version } from '../../../src/drivers/local/protocol.js'
import { openRuntimeDirectory } from '../../../src/drivers/local/runtime-directory.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { brokerOf, endAll, freshDirectory, start, type Taker } from './processes.js'

type Manner = 'says nothing' | 'hangs up' | 'lies' | 'refuses' | 'enters' | 'grants'
const manners: readonly Manner[] = ['says nothing', 'hangs up', 'lies', 'refuses', 'enters', 'grants']

/** Only root can start a process of another user, and only who sees all processes knows that it is another user's. */
const strangersCanBe = process.getuid?.() === 0 && readlinkSync('/proc/self/ns/pid') === 'pid:[4026531836]'
const stranger = strangersCanBe ? 65534 : process.getuid?.()

const squatters = new Set<ChildProcess>()
const nameOf = (directory: string) =>
  fixedAddress(openRuntimeDirectory(directory, 'abstract'), 'broker') ?? ''

/** Binds the broker's name of `directory`, and treats every client in this manner. Not from a file: another user may not read the checkout. */
async function squat(directory: string, manner: Manner, uid = process.getuid?.()): Promise<ChildProcess> {
  const code = `
    const [manner, name] = process.argv.slice(1)
    require('net').createServer((socket) => {
      socket.on('error', () => {})
      if (manner === 'hangs up') socket.destroy()
      if (manner === 'lies') socket.on('data', () => socket.write('["hello",${version},"nonce","proof",1]\\n'))
      if (manner === 'refuses') socket.on('data', () => socket.end('["no","nobody is welcome"]\\n'))
      const grant = '[1,"granted",7,7,0,false]\\n'
      if (manner === 'enters') socket.write('["entered",[]]\\n' + grant)
      if (manner === 'grants') socket.write(grant)
    }).listen({ path: Buffer.from(name, 'base64').toString('latin1') }, () => process.send('bound'))
    process.on('disconnect', () => process.exit())`
  const child = spawn(
    process.execPath,
    ['-e', code, manner, Buffer.from(nameOf(directory), 'latin1').toString('base64')],
    {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      cwd: '/',
      ...(uid !== undefined && { uid }),
    },
  )
  squatters.add(child)
  const [said] = await Promise.race([once(child, 'message'), once(child, 'exit')])
  assert.equal(said, 'bound')
  return child
}

async function leave(squatter: ChildProcess): Promise<void> {
  if (squatter.exitCode !== null || squatter.signalCode !== null) return
  const exited = once(squatter, 'exit')
  squatter.kill('SIGKILL')
  await exited
}

afterEach(() => Promise.all([...squatters].map(leave)))

/** What a client is told where the squatter cannot be known for a stranger. */
const isTold = (squatter: ChildProcess) => ({
  code: 'BACKEND',
  message: new RegExp(
    `@holdfast-\\d+-[0-9a-f]+-broker is held by process ${squatter.pid} of this user, which is no broker of`,
  ),
})

/** On a busy machine a single attempt may end before the driver knows who has the name. A wait without limit always gets the reason. */
async function areTold(tried: () => Promise<unknown>, told: object): Promise<void> {
  await until(async () => {
    const answer = tried()
    const isOver = await answer.then(
      () => false,
      ({ code }) => code === 'UNAVAILABLE',
    )
    if (isOver) return false
    await assert.rejects(answer, told)
    return true
  })
}

/** On a busy machine an answer may come too late. */
function untilWaiting(one: Taker, count: number, name = 'x'): Promise<unknown> {
  const waiting = () => one.waiters(name).catch(() => undefined)
  return until(async () => (await waiting()) === count, { what: `${count} waiters` })
}

describe('a name that this user has already', () => {
  for (const manner of manners) {
    test(`is reported with its process before a call gives up: it ${manner}`, async () => {
      const directory = freshDirectory()
      const squatter = await squat(directory, manner)
      const locks = createLocks(local({ directory }))
      await areTold(() => locks.mutex('x').tryAcquire(), isTold(squatter))
      // One that would wait for ever is told, too.
      await assert.rejects(locks.mutex('x').acquire(), isTold(squatter))
      await leave(squatter)
      await (await locks.mutex('x').acquire()).release()
      await locks.close()
    })
  }
})

describe('a name that another user has already', () => {
  for (const manner of manners) {
    test(`does not block locks: it ${manner}`, async () => {
      const directory = freshDirectory()
      const squatter = await squat(directory, manner, stranger)
      const [one, two] = [createLocks(local({ directory })), await start({ directory, socket: 'abstract' })]
      if (!strangersCanBe)
        return assert.rejects(one.mutex('x').tryAcquire(), isTold(squatter)).finally(() => one.close())
      const lease = await one.mutex('x').acquire({ wait: 120_000, ttl: 600_000 })
      const next = two.acquire('x')
      await untilWaiting(two, 1)
      await lease.release()
      assert.ok((await next).token > lease.token)
      await one.close()
    })
  }

  test('is reported with process and user where a socket file cannot take its place', async () => {
    const directory = join(freshDirectory(), 'd'.repeat(100))
    const squatter = await squat(directory, 'says nothing', stranger)
    const locks = createLocks(local({ directory }))
    const told = {
      code: 'BACKEND',
      message: new RegExp(
        `is held by process ${squatter.pid} of uid ${stranger}; socket file .* the limit is 103`,
      ),
    }
    await areTold(() => locks.mutex('x').tryAcquire(), strangersCanBe ? told : isTold(squatter))
    await locks.close()
  })

  test('gives one broker to many that start at once, also after the stranger has left', async () => {
    const directory = freshDirectory()
    const squatter = await squat(directory, 'says nothing', stranger)
    const counter = join(directory, 'counter')
    writeFileSync(counter, '0')
    const all = await Promise.all(Array.from({ length: 12 }, () => start({ directory })))
    const count = async (one: (typeof all)[number]) => {
      const taken = await one.acquire('x')
      const seen = Number(readFileSync(counter, 'utf8'))
      await new Promise((resolve) => setImmediate(resolve))
      writeFileSync(counter, String(seen + 1))
      await one.release(taken)
    }
    const counted = Promise.all(all.map(count))
    if (!strangersCanBe) return assert.rejects(counted, isTold(squatter))
    await counted
    assert.equal(readFileSync(counter, 'utf8'), '12')
    const broker = all.find(({ pid }) => pid === brokerOf(directory))
    const holder = all.find((one) => one !== broker)
    assert.ok(broker && holder)
    const held = await holder.acquire('kept', { ttl: 600_000 })

    await leave(squatter)
    const late = await start({ directory })
    assert.equal(await late.tryAcquire('kept'), undefined, 'there is a second broker')
    assert.deepEqual(
      findSocketHolder(nameOf(directory)),
      { is: 'nobody' },
      'nobody needs the name while there is a broker',
    )

    await broker.kill()
    const next = late.acquire('kept')
    await untilWaiting(late, 1, 'kept')
    assert.equal(findSocketHolder(nameOf(directory)).is, 'ours', 'the next broker serves by name again')
    await untilWaiting(holder, 1, 'kept')
    assert.equal(await holder.release(held), 'released')
    assert.ok((await next).token > held.token)
  })

  test('because it was faster when the broker died, costs nobody a hold, nor does the death of the next broker', async () => {
    const directory = freshDirectory()
    const [broker, holder] = [await start({ directory }), await start({ directory })]
    await broker.acquire('who-runs-the-broker')
    const held = await holder.acquire('x', { ttl: 600_000 })
    holder.stop()
    await broker.kill()
    const squatter = await squat(directory, 'says nothing', stranger)
    const late = await start({ directory })
    const waits = late.acquire('x')
    if (!strangersCanBe) return assert.rejects(waits, isTold(squatter))
    // It finds the squatter first, too, and the broker that has begun meanwhile after that.
    const later = await start({ directory })
    const waitsToo = later.acquire('x')
    await untilWaiting(late, 2)
    const [next, last] = brokerOf(directory) === late.pid ? [late, later] : [later, late]
    assert.equal(next.pid, brokerOf(directory))
    await next.kill()
    await untilWaiting(last, 1)
    holder.go()
    await untilWaiting(holder, 1)
    assert.equal(await holder.release(held), 'released')
    const taken = await (last === late ? waits : waitsToo)
    assert.ok(taken.token > held.token)
  })

  test('leaves a directory that is deleted as safe as it was', async () => {
    const directory = freshDirectory()
    const squatter = await squat(directory, 'says nothing', stranger)
    const [broker, holder] = [await start({ directory }), await start({ directory })]
    if (!strangersCanBe) return assert.rejects(broker.acquire('x'), isTold(squatter))
    await broker.acquire('who-runs-the-broker')
    const held = await holder.acquire('x', { ttl: 30_000 })
    for (const file of readdirSync(directory)) rmSync(join(directory, file))
    const [file = ''] = await until(() => readdirSync(directory).filter((name) => name === 'broker-1'))
    await until(() => existsSync(join(directory, file)) && existsSync(join(directory, 'journal')))
    const late = await start({ directory })
    assert.equal(
      await late.tryAcquire('x'),
      undefined,
      'a second broker grants what the first one has granted',
    )
    assert.equal(brokerOf(directory), broker.pid)
    assert.equal(await holder.release(held), 'released')
  })
})

describe('a stopped broker', () => {
  test('is not mistaken for a stranger, even when nothing is left of it in its directory', async () => {
    const directory = freshDirectory()
    const broker = await start({ directory })
    const held = await broker.acquire('x', { ttl: 60_000 })
    broker.stop()
    try {
      for (const file of readdirSync(directory)) rmSync(join(directory, file))
      const late = await start({ directory })
      await areTold(() => late.tryAcquire('x'), {
        code: 'BACKEND',
        message: new RegExp(`is held by process ${broker.pid} of this user`),
      })
      assert.deepEqual(
        readdirSync(directory).filter((name) => name.startsWith('broker-')),
        [],
      )
    } finally {
      broker.go()
    }
    assert.equal(await broker.release(held), 'released')
  })

  test('is named to those who never met it', async () => {
    const directory = freshDirectory()
    const broker = await start({ directory })
    await broker.acquire('x')
    broker.stop()
    const late = await start({ directory })
    await assert.rejects(late.tryAcquire('x'), {
      code: 'UNAVAILABLE',
      message: new RegExp(`in process ${broker.pid} gave no answer within 5000 ms; is that process stopped`),
    })
    broker.go()
  })
})

after(async () => {
  await endAll()
  await leakCheck()
})
