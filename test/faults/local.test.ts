// Faults of the machine: the directory is deleted, the disk is full, the broker is stopped, the name is taken by somebody else.
// Second tier because it takes most of a minute; local-crash.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { systemEnv } from '../../src/core/engine.js'
import { fixedAddress } from '../../src/drivers/local/address.js'
import { answerTimeout } from '../../src/drivers/local/call.js'
import { version } from '../../src/drivers/local/protocol.js'
import { openRuntimeDirectory } from '../../src/drivers/local/runtime-directory.js'
import {
  brokerOf,
  endAll,
  freshDirectory,
  now,
  start,
  type Taken,
  type Taker,
} from '../drivers/local/processes.js'
import { claim, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

const journal = (directory: string) => join(directory, 'journal')

/** It is renewed: it still holds when the ttl it was taken for has passed twice. */
async function outlives(holder: Taker, held: Taken, ttl: number): Promise<void> {
  await until(async () => (await holder.state(held)) === 'lost' || now() > held.at + 2 * ttl)
  assert.notEqual(await holder.state(held), 'lost')
}

/** Whoever deletes what somebody else writes into may find something new in it, and deletes that, too. */
async function deleteAll(directory: string): Promise<void> {
  await until(() => {
    try {
      rmSync(directory, { recursive: true, force: true })
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error
      return false
    }
  })
}

describe('a deleted directory', () => {
  for (const socket of ['abstract', 'file'] as const) {
    test(`is made again with all that is held, over ${socket} sockets`, async () => {
      const options = { directory: freshDirectory(), socket }
      const [broker, holder] = [await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      const held = await holder.acquire('x', { ttl: 6000 })
      await deleteAll(options.directory)
      await until(() => existsSync(journal(options.directory)))
      const late = await start(options)
      assert.equal(
        await late.tryAcquire('x'),
        undefined,
        'a second broker grants what the first one has granted',
      )
      await broker.kill()
      assert.equal(await late.tryAcquire('x'), undefined, 'the journal was not made again')
      assert.equal(await holder.release(held), 'released')
      assert.ok(((await late.tryAcquire('x')) ?? 0) > held.token)
    })
  }

  test('that cannot be made again refuses grants with the reason, and keeps what is held', async () => {
    const parent = freshDirectory()
    const directory = join(parent, 'inner')
    const [broker, holder] = [await start({ directory }), await start({ directory })]
    await broker.acquire('who-runs-the-broker')
    const held = await holder.acquire('x', { ttl: 3000 })
    rmSync(directory, { recursive: true })
    writeFileSync(directory, 'in the way')
    // The journal is looked for at most every 5 ms, so the first try may still be too quick for that.
    let tries = 0
    const refused = await until(() =>
      broker.tryAcquire(`y${++tries}`).then(
        () => undefined,
        (error) => error,
      ),
    )
    assert.equal(refused.code, 'BACKEND')
    assert.match(refused.message, /local: the journal cannot be written, so nothing is granted/)
    await outlives(holder, held, 3000)
    rmSync(directory)
    await until(() => broker.tryAcquire('y').catch(() => undefined))
    assert.equal(await holder.release(held), 'released')
  })
})

describe('a full disk', () => {
  test('refuses grants with the reason, keeps and ends what is held, and heals', async () => {
    const directory = freshDirectory()
    // The broker's process may write files of 4 kB only: what comes after that fails with EFBIG.
    const broker = await start({ directory }, { limit: 'ulimit -f 8' })
    const other = await start({ directory })
    await broker.acquire('who-runs-the-broker')
    const held = await other.acquire('kept', { ttl: 3000 })
    const fill = async () => {
      for (let i = 0; i < 200; i++) await broker.release(await broker.acquire(`name-${i}`))
    }
    await assert.rejects(fill(), { code: 'BACKEND', message: /nothing is granted.*EFBIG/ })
    await assert.rejects(other.acquire('another'), { code: 'BACKEND', message: /nothing is granted.*EFBIG/ })
    // Renewals need no space.
    await outlives(other, held, 3000)
    const waiting = broker.acquire('kept')
    const refused = assert.rejects(waiting, { code: 'BACKEND', message: /EFBIG/ })
    await until(async () => (await other.waiters('kept')) === 1)
    assert.equal(await other.release(held), 'released', 'an end needs no space')
    await refused
    // Another process can write: it takes over with everything it needs to know.
    await broker.kill()
    const next = await other.acquire('kept')
    assert.ok(next.token > held.token)
  })
})

/** Runs with files that may have no content at all. */
const cramped = (script: string): string => {
  const run = spawnSync('sh', ['-c', 'ulimit -f 0; exec node --input-type=module -e "$1"', 'sh', script])
  return String(run.stdout)
}

describe('a full disk without room for anything', () => {
  test('is reported, and no empty draft stays in the directory', async () => {
    const directory = freshDirectory()
    const code = `import { createLocks } from 'holdfast'; import { local } from 'holdfast/local'
      const locks = createLocks(local({ directory: ${JSON.stringify(directory)}, socket: 'file' }))
      await locks.mutex('x').tryAcquire().catch((error) => console.log(error.code, error.message))
      await locks.close()`
    assert.match(cramped(code), /^BACKEND .*cannot use directory.*EFBIG/)
    assert.deepEqual(readdirSync(directory), [])
  })
})

describe('a disk that is full when a broker over a socket file ends, in a process that lives on', () => {
  /** From now on, what is written beyond so many bytes of a file fails with EFBIG. */
  const limit = ({ pid }: Taker, bytes: number) =>
    assert.equal(spawnSync('prlimit', ['--pid', `${pid}`, `--fsize=${bytes}:`]).status, 0)

  test('another process takes over at once', async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const [broker, other] = [await start(options), await start(options)]
    const held = await broker.acquire('x')
    await broker.release(held)
    limit(broker, 50)
    await broker.close()
    assert.ok((await other.acquire('x')).token > held.token)
    assert.deepEqual(
      readdirSync(options.directory).filter((name) => name.startsWith('draft-')),
      [],
    )
  })

  test('where nothing at all can be written, the others are told which process to end', async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const [broker, other] = [await start(options), await start(options)]
    await broker.acquire('x')
    limit(broker, 1)
    await broker.close()
    const refusal = await until(() =>
      other.tryAcquire('x').then(
        () => assert.fail('a second broker'),
        ({ code, message }) => `${code} ${message}`.includes('end that process') && `${code} ${message}`,
      ),
    )
    assert.match(
      refusal,
      new RegExp(`^UNAVAILABLE .*in process ${broker.pid} .*broker-1 does not say that it has ended`),
    )
  })

  test('a process that cannot publish its broker names the file and the remedy', async () => {
    const directory = freshDirectory()
    openRuntimeDirectory(directory, 'file')
    const code = `import { createLocks } from 'holdfast'; import { local } from 'holdfast/local'
      const locks = createLocks(local({ directory: ${JSON.stringify(directory)} }))
      await locks.mutex('x').tryAcquire().catch((error) => console.log(error.code, error.message))
      await locks.close()`
    assert.match(cramped(code), /^BACKEND .*cannot write .*\/broker-1: EFBIG.*make room on its disk/)
  })
})

describe('a stopped broker', () => {
  test('is unavailable, not a second broker: tries fail, leases run out, waiters go on when it does', async () => {
    const directory = freshDirectory()
    const [broker, holder, waiter] = [
      await start({ directory }),
      await start({ directory }),
      await start({ directory }),
    ]
    await broker.acquire('who-runs-the-broker')
    const held = await holder.acquire('x', { ttl: 3000 })
    const next = waiter.acquire('x')
    await until(async () => (await broker.waiters('x')) === 1)
    broker.stop()
    try {
      await until(async () => (await holder.state(held)) === 'lost')
      // A slow answer before the stop is a doubt of its own, which the answer ended.
      assert.equal((await holder.doubted()).at(-1), 'x')
      const late = await start({ directory })
      await Promise.all([
        assert.rejects(holder.tryAcquire('y'), {
          code: 'UNAVAILABLE',
          message: new RegExp(
            `in process ${broker.pid} gave no answer within 5000 ms; is that process stopped`,
          ),
        }),
        assert.rejects(late.tryAcquire('y'), { code: 'UNAVAILABLE' }),
      ])
    } finally {
      broker.go()
    }
    assert.ok((await next).token > held.token)
    assert.equal(brokerOf(directory), broker.pid)
  })
})

describe('a journal', () => {
  const boot = () => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
  const startOf = (pid: number) => {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  }
  const pidSpace = () => readlinkSync('/proc/self/ns/pid')

  /** A directory with the journal of a broker that was killed while process `pid`, started at `started`, held `x`. */
  function forged(pid: number, started: string, more: { boot?: string; token?: number; tail?: string } = {}) {
    const directory = freshDirectory()
    const token = more.token ?? 2_000_000_000_000_000
    const lines = [
      ['v', 1, more.boot ?? boot(), 1, 0],
      [
        'g',
        'x',
        'a'.repeat(32),
        'x',
        1500,
        token,
        token + 65_536,
        '',
        'host:1',
        'client',
        pid,
        started,
        pidSpace(),
      ],
    ]
    writeFileSync(
      journal(directory),
      `${lines.map((line) => JSON.stringify(line)).join('\n')}\n${more.tail ?? ''}`,
    )
    return { directory, token }
  }

  test('entry of a live process holds until its ttl has passed', async () => {
    const { directory, token } = forged(process.pid, startOf(process.pid))
    const one = await start({ directory })
    assert.equal(await one.tryAcquire('x'), undefined)
    const taken = await one.acquire('x', { wait: 10_000 })
    assert.ok(taken.token > token + 65_536)
  })

  test('entry whose pid now belongs to another process is free at once', async () => {
    const { directory, token } = forged(process.pid, '1')
    const one = await start({ directory })
    assert.ok(((await one.tryAcquire('x')) ?? 0) > token + 65_536)
  })

  test('frees the entry of a dead process at once', async () => {
    const { directory } = forged(2 ** 22 + 1, '1')
    assert.ok(await (await start({ directory })).tryAcquire('x'))
  })

  test('entry of an earlier boot is free at once, and tokens go on after it', async () => {
    const { directory, token } = forged(process.pid, startOf(process.pid), { boot: 'before' })
    assert.ok(((await (await start({ directory })).tryAcquire('x')) ?? 0) > token + 65_536)
  })

  test('skips a torn line', async () => {
    const { directory } = forged(2 ** 22 + 1, '1', { tail: '["g","y","bbbb","x",150' })
    const one = await start({ directory })
    assert.ok(await one.tryAcquire('y'))
  })

  test('grows no further than what is still true', async () => {
    const directory = freshDirectory()
    const locks = createLocks(local({ directory }))
    const kept = await locks.mutex('kept').acquire()
    for (let i = 0; i < 3000; i++) await (await locks.mutex(`name-${i % 7}`).acquire()).release()
    assert.ok(readFileSync(journal(directory)).length < 600_000)
    await locks.close()
    assert.equal(kept.state, 'released')
  })
})

describe('an answer', () => {
  test('of many packets is read whole, whatever characters lie across their edges', async () => {
    const locks = createLocks(local({ directory: freshDirectory() }))
    const names = Array.from({ length: 300 }, (_, i) => `${i}:${'錠前'.repeat(70)}`)
    for (const name of names) await locks.mutex(name).acquire({ note: 'ключ 🔑' })
    const listed = await locks.list()
    assert.deepEqual(
      listed.map(({ name }) => name),
      names,
    )
    assert.ok(listed.every(({ holders }) => holders[0]?.note === 'ключ 🔑'))
    await locks.close()
  })
})

describe('strangers', () => {
  test('that listen at the address are not trusted', async () => {
    const directory = freshDirectory()
    const path = fixedAddress(openRuntimeDirectory(directory, 'abstract'), 'broker') ?? ''
    const stranger = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', () => socket.write(`["hello",${version},"nonce","proof",1]\n`))
    })
    await new Promise<void>((resolve) => stranger.listen({ path }, resolve))
    const locks = createLocks(local({ directory }))
    try {
      await assert.rejects(locks.mutex('x').tryAcquire(), { code: 'BACKEND', message: /cannot read/ })
    } finally {
      await locks.close()
      await new Promise((resolve) => stranger.close(resolve))
    }
  })

  test('that do not know the secret get nothing from the broker', async () => {
    const directory = freshDirectory()
    const locks = createLocks(local({ directory, socket: 'abstract' }))
    await locks.mutex('x').acquire()
    const { connect } = await import('node:net')
    const socket = connect({
      path: fixedAddress(openRuntimeDirectory(directory, 'abstract'), 'broker') ?? '',
    })
    let heard = ''
    socket.setEncoding('utf8').on('data', (chunk) => (heard += chunk))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    const who = { client: 'c', by: 'b', mark: {}, held: [], asked: [] }
    const guess = JSON.stringify(['prove', 'guess'])
    const enter = JSON.stringify(['enter', who])
    socket.write(`["hello",${version},"n"]\n${guess}\n${enter}\n[1,"force","x"]\n`)
    await closed
    assert.match(heard, /has not shown/)
    assert.equal((await locks.inspect('x')).holders.length, 1)
    await locks.close()
  })

  test('that have not authenticated cost the broker little, and keep nobody out', async () => {
    const directory = freshDirectory()
    const locks = createLocks(local({ directory, socket: 'abstract' }))
    const held = await locks.mutex('x').acquire()
    const { connect } = await import('node:net')
    const path = fixedAddress(openRuntimeDirectory(directory, 'abstract'), 'broker') ?? ''
    /** A stranger who says this; resolves with what it was told before it was cut off. */
    const stranger = (...says: string[]) => {
      const socket = connect({ path })
      let heard = ''
      socket.setEncoding('utf8').on('data', (chunk) => (heard += chunk))
      socket.on('error', () => undefined)
      for (const text of says) socket.write(text)
      return new Promise<string>((resolve) => socket.once('close', () => resolve(heard)))
    }
    // A line without end is cut off once it is longer than a greeting, and is never kept.
    assert.match(await stranger('x'.repeat(2_000)), /a line without end/)
    assert.match(await stranger(`["hello",${version},"${'n'.repeat(2_000)}"]\n`), /a line without end/)
    const hello = `["hello",${version},"n"]\n`
    assert.match(await stranger(hello, hello), /it was greeted before/)
    // Of many who say nothing the oldest are cut off at once, the others soon; ours come in all the while.
    const silent = Array.from({ length: 400 }, () => stranger())
    const others = createLocks(local({ directory, socket: 'abstract' }))
    assert.equal((await others.mutex('y').acquire()).isHeld, true)
    await Promise.all(silent)
    assert.equal(held.isHeld, true)
    await Promise.all([locks.close(), others.close()])
  })

  test('of another protocol version get an error that says so', async () => {
    const directory = freshDirectory()
    const locks = createLocks(local({ directory, socket: 'abstract' }))
    await locks.mutex('x').acquire()
    const { connect } = await import('node:net')
    const socket = connect({
      path: fixedAddress(openRuntimeDirectory(directory, 'abstract'), 'broker') ?? '',
    })
    let heard = ''
    socket.setEncoding('utf8').on('data', (chunk) => (heard += chunk))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write('["hello",99,"n"]\n')
    await closed
    assert.ok(heard.includes(`speaks version ${version} of the protocol, this process speaks 99`), heard)
    await locks.close()
  })
})

describe('a directory', () => {
  const refused = async (directory: string, message: RegExp) => {
    const locks = createLocks(local({ directory }))
    await assert.rejects(locks.mutex('x').acquire(), { code: 'BACKEND', message })
    await locks.close()
  }

  test('that others may write to is refused', async () => {
    const directory = freshDirectory()
    chmodSync(directory, 0o777)
    await refused(directory, /can be written by others \(mode 777\); chmod go-w it/)
  })

  test('that is a file is refused', async () => {
    const directory = join(freshDirectory(), 'file')
    writeFileSync(directory, '')
    await refused(directory, /is not a directory; give local/)
  })

  test('that cannot be made is refused, also where it looks as if only its parent were missing', async () => {
    await refused('/proc/holdfast/locks', /cannot use directory .*ENOENT/)
  })

  test('is created with its parents, for its owner alone', async () => {
    const directory = join(freshDirectory(), 'a/b')
    const locks = createLocks(local({ directory }))
    await locks.mutex('x').run(() => undefined)
    assert.equal(statSync(join(directory, '..')).mode & 0o777, 0o700)
    assert.equal(statSync(directory).mode & 0o777, 0o700)
    await locks.close()
  })

  test('is the same through a link', async () => {
    const directory = freshDirectory()
    mkdirSync(join(directory, 'real'), { mode: 0o700 })
    symlinkSync(join(directory, 'real'), join(directory, 'link'))
    const [one, two] = [join(directory, 'real'), join(directory, 'link')].map((path) =>
      createLocks(local({ directory: path })),
    )
    await one!.mutex('x').acquire()
    assert.equal(await two!.mutex('x').tryAcquire(), undefined)
    await Promise.all([one!.close(), two!.close()])
  })

  test('keeps the kind of socket it was first used with', async () => {
    const directory = freshDirectory()
    const locks = createLocks(local({ directory, socket: 'file' }))
    await locks.mutex('x').acquire()
    const other = createLocks(local({ directory, socket: 'abstract' }))
    await assert.rejects(other.mutex('x').acquire(), {
      code: 'BACKEND',
      message: /in use with socket: 'file', got socket: 'abstract'/,
    })
    await Promise.all([locks.close(), other.close()])
  })

  test('with a path too long for a socket file says so', async () => {
    const directory = join(freshDirectory(), 'd'.repeat(100))
    const locks = createLocks(local({ directory, socket: 'file' }))
    await assert.rejects(locks.mutex('x').acquire(), {
      code: 'BACKEND',
      message: /the limit is 103; use a shorter directory/,
    })
    await locks.close()
  })

  test('of an abstract socket used from another network name space is refused with the remedy', async () => {
    const directory = freshDirectory()
    const home = openRuntimeDirectory(directory, 'abstract')
    const file = join(directory, readdirSync(directory).find((name) => name.startsWith('home-')) ?? '')
    writeFileSync(file, `${JSON.stringify({ ...home, net: 'net:[1]' })}\n`)
    await refused(directory, /another network name space .* socket: 'file'/)
  })
})

describe('options', () => {
  test('that make no sense are refused before any I/O', () => {
    assert.throws(() => local({ directory: '' }), {
      name: 'TypeError',
      message: /directory must be a path, got ""/,
    })
    assert.throws(() => local({ directory: 7 as unknown as string }), { name: 'TypeError', message: /got 7/ })
    assert.throws(() => local({ dir: 'x' } as object), { name: 'TypeError', message: /unknown option "dir"/ })
    assert.throws(() => local({ socket: 'pipe' as 'file' }), { name: 'TypeError', message: /got "pipe"/ })
    assert.throws(() => local(null as unknown as object), { name: 'TypeError' })
  })
})

test('a wait that was given up while the broker was stopped holds nothing when the broker resumes, even if its client is closed', async () => {
  const options = { directory: freshDirectory() }
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  const [a, b, c] = [createLocks(local(options)), createLocks(local(options)), createLocks(local(options))]
  const lease = await a.mutex('x').acquire({ ttl: 60_000 })
  const gaveUp = new AbortController()
  const waiting = new Promise((resolve) => b.on('waiting', resolve))
  const wait = b.mutex('x').acquire({ ttl: 60_000, signal: gaveUp.signal })
  const refused = assert.rejects(wait)
  await waiting
  broker.stop()
  // It comes before all that the waiter says from now on.
  const released = lease.release()
  gaveUp.abort()
  await refused
  await b.close()
  broker.go()
  assert.equal(await released, 'released')
  const next = await c.mutex('x').acquire({ wait: 10_000 })
  assert.ok(next.token > lease.token)
  await next.release()
  await Promise.all([a.close(), c.close()])
})

test('a wait that was given up while the broker was stopped leaves nothing for which its client needs a broker', async () => {
  const options = { directory: freshDirectory() }
  const broker = await start(options)
  const held = await broker.acquire('x', { ttl: 60_000 })
  const idle = local(options)(systemEnv())
  const wait = waiting()
  const asking = idle.acquire(claim('x', { ttl: 60_000 }), wait)
  await until(() => wait.told.length > 0)
  broker.stop()
  wait.end()
  assert.equal(await asking, undefined)
  broker.go()
  // Its answer to a later request comes behind that to the end of the wait.
  assert.equal((await idle.inspect('x')).waiters.length, 0)
  await broker.release(held)
  await broker.kill()
  await idle.close()
  assert.equal(brokerOf(options.directory), broker.pid, 'it started a broker, to leave it')
})

test('a reply that arrived while the event loop was blocked is read before its call is given up', async () => {
  const directory = freshDirectory()
  const broker = await start({ directory })
  await broker.acquire('who-runs-the-broker')
  const locks = createLocks(local({ directory }))
  await locks.mutex('warm').run(() => undefined)
  const asked = locks.mutex('stood still').tryAcquire({ ttl: 120_000 })
  // It leaves now. Nothing is read here until the broker has answered others after it, and the time of the call is over.
  await new Promise(setImmediate)
  const script = `
    const began = performance.now()
    const { createLocks } = await import(${JSON.stringify(import.meta.resolve('holdfast'))})
    const { local } = await import(${JSON.stringify(import.meta.resolve('holdfast/local'))})
    const locks = createLocks(local({ directory: ${JSON.stringify(directory)} }))
    const held = () => locks.inspect('stood still').then(({ holders }) => holders.length > 0, () => false)
    while (!(await held()) || performance.now() < began + ${answerTimeout})
      await new Promise((resolve) => setTimeout(resolve, 20))
    await locks.close()`
  const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    timeout: 110_000,
    stdio: 'inherit',
  })
  assert.equal(status, 0)
  const lease = await asked
  assert.ok(lease, 'the answer was there')
  assert.equal(await lease.release(), 'released')
  await locks.close()
})

after(async () => {
  await endAll()
  await leakCheck()
})
