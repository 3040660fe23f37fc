// Directories in odd places, and processes in odd surroundings: locks work, or the error names the path and says what to do.
// Second tier because each place and each surrounding takes two processes of its own.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory, type Start, start, type Taker } from './processes.js'

/** It takes a right that not every user has, nor every container. */
const mayMount = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
const isRoot = process.getuid?.() === 0

/** One of them holds, the other sees that, and gets it after that. */
async function exclude(one: Taker, other: Taker): Promise<void> {
  const held = await one.acquire('x')
  // A single attempt has a limit, within which a busy machine may not start what it needs.
  await other.acquire('warm')
  assert.equal(await other.tryAcquire('x'), undefined)
  assert.equal(await one.release(held), 'released')
  assert.ok(Number(await other.tryAcquire('x')) > held.token)
}

describe('a directory', () => {
  for (const [what, name, socket] of [
    ['with spaces and quotes', ` a 'b' "c" $d`, 'file'],
    ['with other letters', 'ünï-名前-🔒', 'file'],
    ['with a path of 200 characters', 'd'.repeat(200), 'abstract'],
  ] as const)
    test(`${what} works, over ${socket} sockets`, async () => {
      const options = { directory: join(freshDirectory(), name), socket }
      await exclude(await start(options), await start(options))
    })

  test('on a file system that runs no programs works', { skip: !mayMount }, async () => {
    const directory = freshDirectory()
    const mount = `mount -t tmpfs -o noexec,nosuid,nodev,mode=700 tmpfs ${directory}`
    const first = await start({ directory, socket: 'file' }, { limit: mounted(mount) })
    const beside = { limit: `exec nsenter --target ${first.pid} --mount ${process.execPath} "$0" "$@"` }
    await exclude(first, await start({ directory, socket: 'file' }, beside))
  })
})

/** A process that sees what `mount` mounts. */
const mounted = (mount: string) =>
  `exec unshare --mount sh -c '${mount} && exec "$0" "$@"' ${process.execPath} "$0" "$@"`

describe('a directory that cannot be used is named, with the remedy, where it is', () => {
  async function refused(directory: string, why: RegExp): Promise<void> {
    await using locks = createLocks(local({ directory }))
    await assert.rejects(locks.mutex('x').tryAcquire(), ({ code, message }) => {
      assert.equal(code, 'BACKEND')
      assert.ok(message.includes(directory), message)
      assert.match(message, why)
      assert.match(message, /; give local\(\{ directory \}\) or HOLDFAST_DIR a directory of your own$/)
      return true
    })
  }

  const makes: Readonly<Record<string, readonly [why: RegExp, make: (path: string) => string]>> = {
    'a link to nothing': [
      /ENOENT/,
      (path) => {
        symlinkSync('nothing', path)
        return path
      },
    ],
    'a link to itself': [
      /ELOOP/,
      (path) => {
        symlinkSync(path, path)
        return path
      },
    ],
    'below a file': [
      /ENOTDIR/,
      (path) => {
        writeFileSync(path, '')
        return join(path, 'below')
      },
    ],
    'a name that is too long': [/ENAMETOOLONG/, (path) => join(path, 'd'.repeat(256))],
  }
  for (const [what, [why, make]] of Object.entries(makes))
    test(what, async () => await refused(make(join(freshDirectory(), 'one')), why))

  test('the property of another user', { skip: !isRoot }, async () => {
    const directory = join(freshDirectory(), 'one')
    mkdirSync(directory, { mode: 0o700 })
    chownSync(directory, 65_534, 65_534)
    await refused(directory, /belongs to uid 65534, and this process runs as 0/)
  })

  test('on a file system that is read-only', { skip: !mayMount }, async () => {
    const directory = freshDirectory()
    const one = await start(
      { directory },
      { limit: mounted(`mount -t tmpfs -o ro,mode=700 tmpfs ${directory}`) },
    )
    await assert.rejects(one.tryAcquire('x'), ({ code, message }: Error & { code: string }) => {
      assert.equal(code, 'BACKEND')
      assert.ok(message.includes(`cannot use directory "${directory}"`), message)
      assert.match(message, /EROFS.*HOLDFAST_DIR a directory of your own$/)
      return true
    })
  })
})

describe('a process', () => {
  const odd: Readonly<Record<string, Start>> = {
    'without HOME and TMPDIR': { env: { HOME: undefined, TMPDIR: undefined } },
    'without standard input and output': { limit: 'exec 0<&- 1>&- 2>&-' },
    'whose files others may write to by default': { limit: 'umask 0' },
    'whose files nobody else may read by default': { limit: 'umask 077' },
  }
  for (const [what, how] of Object.entries(odd))
    for (const isFirst of [true, false])
      test(`${what} works, ${isFirst ? 'as the first' : 'after another'}`, async () => {
        const directory = join(freshDirectory(), 'made by the first')
        const env = { ...how.env, HOLDFAST_DIR: directory }
        const [first, second] = isFirst ? [{ ...how, env }, { env }] : [{ env }, { ...how, env }]
        await exclude(await start({}, first), await start({}, second))
        assert.equal(statSync(directory).mode & 0o777, 0o700)
      })
})

after(endAll)
after(leakCheck)
