// One directory that a mount shows at two paths, as to the containers of one pod, or in a chroot.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory, start } from './processes.js'

/** It takes a right that not every user has, nor every container. */
const mayMount = spawnSync('unshare', ['--mount', 'mount', '--bind', '/tmp', '/mnt']).status === 0

describe('a directory that is mounted twice', { skip: !mayMount }, () => {
  for (const socket of ['abstract', 'file'] as const)
    for (const [who, isFirst] of [
      ['its own path', true],
      ['the other path', false],
    ] as const)
      test(`has one broker, in a process that uses ${who}, over ${socket} sockets`, async () => {
        const parent = freshDirectory()
        const [directory, other] = [join(parent, 'one'), join(parent, 'other')]
        for (const path of [directory, other]) mkdirSync(path, { mode: 0o700 })
        const limit = `exec unshare --mount sh -c 'mount --bind ${directory} ${other} && exec "$0" "$@"' ${process.execPath} "$0" "$@"`
        const inside = () => start({ directory: other, socket }, { limit })
        const outside = () => start({ directory, socket })
        const broker = await (isFirst ? outside() : inside())
        const held = await broker.acquire('x')
        const second = await (isFirst ? inside() : outside())
        assert.equal(await second.tryAcquire('x'), undefined)
        await broker.release(held)
        assert.ok(Number(await second.tryAcquire('x')) > held.token)
        await broker.kill()
        const third = await (isFirst ? outside() : inside())
        assert.equal(await third.tryAcquire('x'), undefined)
      })
})

test('a copy of a directory in use has a broker of its own', async () => {
  const options = { directory: freshDirectory(), socket: 'abstract' } as const
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  const copy = join(freshDirectory(), 'copy')
  cpSync(options.directory, copy, { recursive: true })
  await broker.acquire('x')
  const other = await start({ directory: copy })
  assert.ok(await other.tryAcquire('x'))
  assert.equal(await (await start(options)).tryAcquire('x'), undefined)
})

after(endAll)
after(leakCheck)
