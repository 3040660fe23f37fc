// Second tier because it needs a browser.
//
// The list of names by keyboard in Chromium: one stop for Tab, and no place that gets lost.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocks, type Lease } from 'holdfast'
import { memory } from 'holdfast/memory'
import type { Page } from 'playwright-core'
import { type StartedBrowser, startBrowser } from '../support/browser.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { open } from './opened.js'

let chromium: StartedBrowser
before(async () => {
  chromium = await startBrowser()
})
after(() => chromium.close())

const focused = (view: Page) => view.evaluate('document.activeElement.textContent') as Promise<string>
const hasFocus = (view: Page, name: string) =>
  until(async () => (await focused(view)) === name, { what: `the focus to be on ${name}` })
/** Whether the link with the focus is seen: inside its list, and below the heading. */
const isSeen = (view: Page) =>
  view.evaluate(`{
    const { top, bottom } = document.activeElement.getBoundingClientRect()
    const box = document.activeElement.closest('.rows')
    top >= box.querySelector('th').getBoundingClientRect().bottom && bottom <= box.getBoundingClientRect().bottom
  }`)

test('5,000 names are one stop for Tab, and keys of their own lead from name to name', async () => {
  const locks = createLocks(memory())
  const name = (i: number) => `account:${String(i).padStart(4, '0')}`
  for (let i = 0; i < 5_000; i++) await locks.mutex(name(i)).acquire({ ttl: 600_000 })
  const { view, wrong, close } = await open(chromium.browser, locks, { budget: 100_000 })
  await view.getByText('5000 names', { exact: true }).waitFor()
  const order = view.getByRole('combobox', { name: 'by' })
  await order.selectOption('name')
  await order.focus()
  await view.keyboard.press('Tab')
  await hasFocus(view, name(0))
  await view.keyboard.press('Tab')
  assert.equal(await view.evaluate(`document.activeElement.closest('.rows') === null`), true)
  await order.focus()
  await view.keyboard.press('Tab')
  await view.keyboard.press('ArrowDown')
  await hasFocus(view, name(1))
  await view.keyboard.press('Home')
  await hasFocus(view, name(0))
  await view.keyboard.press('PageDown')
  await until(async () => (await focused(view)) !== name(0))
  const page = Number((await focused(view)).slice(-4))
  assert.ok(page > 1 && page < 50, `a page of ${page}`)
  for (let i = 2; i <= 10; i++) {
    await view.keyboard.press('PageDown')
    await hasFocus(view, name(page * i))
    await until(() => isSeen(view))
  }
  await view.keyboard.press('PageUp')
  await hasFocus(view, name(page * 9))
  await view.keyboard.press('End')
  await hasFocus(view, name(4_999))
  await until(() => isSeen(view))
  await view.keyboard.press('ArrowUp')
  await view.keyboard.press('Enter')
  await view.getByRole('heading', { name: name(4_998) }).waitFor()
  await view.keyboard.press('Escape')
  await hasFocus(view, name(4_998))
  assert.deepEqual(wrong, [])
  await close()
  await locks.close()
})

test('the focus stays on its name while rows move and scroll away, and goes to the next one when it is gone', async () => {
  const locks = createLocks(memory())
  const leases: Lease[] = []
  for (let i = 10; i < 60; i++) leases.push(await locks.mutex(`job:${i}`).acquire({ ttl: 600_000 }))
  const { view, wrong, close } = await open(chromium.browser, locks)
  const firstRow = () => view.locator('tr.name a').first().textContent()
  await view.getByText('50 names', { exact: true }).waitFor()
  await view.getByRole('link', { name: 'job:12' }).focus()
  const end = new AbortController()
  // Fair: a request that its own process can serve later is no waiter in the store.
  const waiting = locks.mutex('job:13').acquire({ fair: true, wait: 600_000, signal: end.signal })
  await until(async () => (await firstRow()) === 'job:13')
  await hasFocus(view, 'job:12')
  end.abort()
  await assert.rejects(waiting)
  await view.getByRole('combobox', { name: 'by' }).selectOption('name')
  await hasFocus(view, 'job:12')
  await view.locator('.rows').evaluate((box) => box.scrollTo(0, 100_000))
  await view.getByRole('link', { name: 'job:59' }).waitFor()
  await hasFocus(view, 'job:12')
  await view.keyboard.press('ArrowDown')
  await hasFocus(view, 'job:13')
  await until(() => isSeen(view))
  await leases[3]?.release()
  await hasFocus(view, 'job:14')
  for (const lease of leases) await lease.release()
  await view.getByText('No lock is held or waited for.').waitFor()
  await locks.mutex('late').acquire()
  await view.getByRole('link', { name: 'late' }).waitFor()
  await view.keyboard.press('End')
  await hasFocus(view, 'late')
  assert.deepEqual(wrong, [])
  await close()
  await locks.close()
})

after(leakCheck)
