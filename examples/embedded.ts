/** Several processes of one machine, no server: each child adds to one file, and one of them dies while it holds the lock. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'

const [, , directory, task] = process.argv
if (directory === undefined) await parent()
else await child(directory, task === 'die')

async function child(directory: string, die: boolean): Promise<void> {
  await using locks = createLocks(local({ directory }))
  const file = join(directory, 'count.txt')
  for (let i = 0; i < 20; i++) {
    await locks.mutex('count').run(async () => {
      const count = Number(await readFile(file, 'utf8'))
      await writeFile(file, String(count + 1))
      if (die && i === 10) process.kill(process.pid, 'SIGKILL')
    })
  }
}

async function parent(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-example-'))
  await writeFile(join(directory, 'count.txt'), '0')
  const children = ['work', 'die', 'work'].map((task) =>
    fork(fileURLToPath(import.meta.url), [directory, task]),
  )
  await Promise.all(children.map((process) => once(process, 'exit')))
  const count = Number(await readFile(join(directory, 'count.txt'), 'utf8'))
  await rm(directory, { recursive: true })
  assert.equal(count, 20 + 11 + 20) // the killed process had done eleven
  console.log(`three processes, one killed while it held the lock: ${count}`)
}
