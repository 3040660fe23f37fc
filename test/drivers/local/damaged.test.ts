// Files of the directory that are empty, cut off or written by hand: what is safe is mended, else the error names the file and what to do.
// A damaged journal is in quarantine.test.ts.
// Second tier because each file is damaged in every way, and each way takes processes of its own; swept.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { runtimeFile } from '../../../src/drivers/local/runtime-directory.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { brokerOf, endAll, freshDirectory, start } from './processes.js'

const files = { socket: 'file' } as const
/** It names a process of no boot, which is no earlier boot. */
const unsigned = '{"socket":"s-1","mark":{"pid":1}}'
const remedy = 'end all processes that use this directory, then delete that file'

/** A directory that a process has used and left. */
async function used(socket: 'abstract' | 'file' = 'file'): Promise<string> {
  const directory = freshDirectory()
  await using locks = createLocks(local({ directory, socket }))
  await locks.mutex('x').run(() => undefined)
  return directory
}

async function refusal(directory: string): Promise<string> {
  await using locks = createLocks(local({ directory }))
  return await locks
    .mutex('x')
    .acquire({ wait: 60_000 })
    .then(String, ({ code, message }) => `${code} ${message}`)
}

describe('a file that should name the broker', () => {
  for (const text of ['', '\0\0\0', '{"socket":"s-12', '[]', 'null', '{"socket":"../x"}', unsigned])
    test(`with ${JSON.stringify(text)} is that of a broker that is over, when no broker lives`, async () => {
      const directory = await used()
      writeFileSync(join(directory, 'broker-7'), text)
      await using locks = createLocks(local({ directory }))
      await locks.mutex('x').run(() => undefined)
      assert.ok(readdirSync(directory).includes('broker-8'))
    })

  for (const name of ['broker-1e20', 'broker-007', 'broker-99999999999999999999'])
    test(`is not one by the name of ${name}`, async () => {
      const directory = await used()
      writeFileSync(join(directory, name), '{"socket":"","mark":{}}')
      await (await start({ directory, ...files })).acquire('x')
    })

  test('with the highest number there is leaves none for the next broker, and is named', async () => {
    const directory = await used()
    const path = join(directory, 'broker-999999999999999')
    writeFileSync(path, '{"socket":""}')
    assert.match(
      await refusal(directory),
      new RegExp(`^BACKEND .*${path} is malformed: it leaves no number for the next broker; ${remedy}`),
    )
  })

  for (const text of ['', unsigned])
    test(`with ${JSON.stringify(text)} is written anew while its broker lives, and no second holder is let in`, async () => {
      const options = { directory: freshDirectory(), ...files }
      const [broker, newcomer] = [await start(options), await start(options)]
      const held = await broker.acquire('x', { ttl: 60_000 })
      writeFileSync(join(options.directory, 'broker-1'), text)
      await until(() => readdirSync(options.directory).includes('broker-2'))
      await newcomer.acquire('y')
      assert.equal(await newcomer.tryAcquire('x'), undefined)
      assert.equal(brokerOf(options.directory), broker.pid)
      assert.equal(await broker.release(held), 'released')
      assert.ok(Number(await newcomer.tryAcquire('x')) > held.token)
    })

  test('emptied while its broker is stopped is named, with the process that runs the broker', async () => {
    const options = { directory: freshDirectory(), ...files }
    const broker = await start(options)
    await broker.acquire('x')
    broker.stop()
    truncateSync(join(options.directory, 'broker-1'))
    const said = await refusal(options.directory)
    assert.match(
      said,
      new RegExp(`^BACKEND .*/broker-1 is malformed: it is empty; ${remedy}; process ${broker.pid} runs`),
    )
    broker.go()
  })
})

describe('what is no file', () => {
  const makes = {
    'a link to nothing': (path: string) => symlinkSync('nothing', path),
    'a directory': (path: string) => mkdirSync(path),
  }
  for (const [what, make] of Object.entries(makes))
    for (const name of ['broker-7', 'journal', basename(runtimeFile('/'))])
      test(`but ${what} in place of ${name.replace(/-.*/, '')} is named, with the remedy`, async () => {
        const directory = await used()
        const path = join(directory, name)
        rmSync(path, { force: true })
        make(path)
        assert.match(
          await refusal(directory),
          new RegExp(`^BACKEND .*${path} is malformed: it is ${what}; ${remedy}`),
        )
      })

  test('but a directory by the name of an earlier socket is left alone', async () => {
    const directory = await used()
    mkdirSync(join(directory, 's-1'))
    await (await start({ directory })).acquire('x')
  })
})

for (const [socket, homes] of [
  ['abstract', ['', '{"socket":"abs', '{}', 'null', '{"socket":"tcp","secret":"1","net":""}']],
  ['file', ['']],
] as const) {
  describe(`over ${socket} sockets`, () => {
    for (const text of homes)
      test(`a home file with ${JSON.stringify(text)} is named, with the remedy`, async () => {
        const directory = await used(socket)
        writeFileSync(runtimeFile(directory), text)
        const said = await refusal(directory)
        assert.ok(said.includes(`${basename(runtimeFile(directory))} is malformed: `), said)
        assert.ok(said.startsWith('BACKEND ') && said.includes(remedy), said)
      })
  })
}

after(endAll)
after(leakCheck)
