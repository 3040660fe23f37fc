// Takes the pictures of docs/ui.md: the page over a Redis server, while processes contend. `node build/scripts/ui-pictures.js`
import { type ChildProcess, fork } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createLocks } from 'holdfast'
import { redis } from 'holdfast/redis'
import { lockPage } from 'holdfast/ui'
import { Redis } from 'ioredis'

const [, , url] = process.argv
if (url === undefined) await takePictures()
else await work(url)

/** A process with a few workers: some hold for long, some give up, all leave notes. */
async function work(url: string): Promise<void> {
  process.on('disconnect', () => process.exit())
  const locks = createLocks(redis({ client: new Redis(url) }))
  const worker = async (id: number): Promise<void> => {
    for (;;) {
      const name = `account:${Math.floor(Math.random() ** 2 * 12)}`
      const how = { fair: true, wait: 15_000, note: id % 2 === 0 ? 'redeem points' : 'grant points' }
      const lease = await locks
        .mutex(name)
        .acquire(how)
        .catch(() => undefined)
      await sleep(300 + Math.random() * 3_000)
      await lease?.release()
      await sleep(Math.random() * 1_000)
    }
  }
  await Promise.all(Array.from({ length: 6 }, (_, id) => worker(id)))
}

async function takePictures(): Promise<void> {
  const [{ startBrowser }, { startRedis }, { serving }] = await Promise.all([
    import('../test/support/browser.js'),
    import('../test/support/servers/redis.js'),
    import('../test/ui/support.js'),
  ])
  const folder = fileURLToPath(new URL('../../docs/ui/', import.meta.url))
  mkdirSync(folder, { recursive: true })
  const server = await startRedis()
  const children: ChildProcess[] = Array.from({ length: 5 }, () =>
    fork(fileURLToPath(import.meta.url), [server.url]),
  )
  const client = new Redis(server.url)
  const locks = createLocks(redis({ client }))
  const page = lockPage({
    stores: { main: { locks, description: 'redis://redis.internal' } },
    allowRelease: true,
    history: 60_000,
    onRelease: () => undefined,
  })
  const site = await serving(page.node)
  const { browser, close } = await startBrowser()
  const view = await browser.newPage({ viewport: { width: 1_100, height: 800 } })
  const picture = (name: string) =>
    view.screenshot({ path: `${folder}${name}.jpg`, type: 'jpeg', quality: 72 })
  await view.goto(site.url)
  await sleep(50_000)
  await picture('overview')
  await view.getByRole('link', { name: 'account:0', exact: true }).click()
  // A holder that gives way meanwhile is not meant: another try.
  do {
    await view.getByRole('button', { name: 'Release by force…' }).click()
    await view.getByLabel('Ask the holder first').uncheck()
    await view.getByLabel('Why?').fill('its host is gone')
    await view.getByRole('button', { name: 'Release it' }).click()
    await sleep(1_500)
  } while (!(await view.getByText('Taken by force.').isVisible()))
  await sleep(6_000)
  await view.getByRole('button', { name: 'Dark' }).click()
  await picture('name-dark')
  await close()
  page.close()
  await site.close()
  for (const child of children) child.kill('SIGKILL')
  await locks.close()
  client.disconnect()
  await server.stop()
}
