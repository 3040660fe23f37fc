// The page over some locks, opened in Chromium.
import type { Locks } from 'holdfast'
import { lockPage, type PageOptions } from 'holdfast/ui'
import type { Browser, Page } from 'playwright-core'
import { type Served, serving } from './support.js'

export interface Opened {
  readonly view: Page
  readonly site: Served
  /** What must not happen: errors, refusals of the policy, requests to others. */
  readonly wrong: string[]
  close(): Promise<void>
}

/** The page over `locks`. @param look of the browser's window */
export async function open(
  browser: Browser,
  locks: Locks,
  options: Partial<PageOptions> = {},
  look: object = {},
): Promise<Opened> {
  const page = lockPage({
    stores: { main: locks },
    interval: 200,
    budget: 10_000,
    onRelease: () => undefined,
    ...options,
  })
  const site = await serving(page.node)
  const view = await browser.newPage(look)
  const wrong: string[] = []
  view.on('console', (message) => message.type() === 'error' && wrong.push(message.text()))
  view.on('pageerror', (error) => wrong.push(error.message))
  view.on('dialog', (dialog) => wrong.push(`dialog: ${dialog.message()}`))
  view.on(
    'request',
    (request) => request.url().startsWith(site.url) || wrong.push(`request: ${request.url()}`),
  )
  await view.goto(site.url)
  await view.getByText('live', { exact: true }).waitFor()
  const close = async () => {
    await view.close()
    page.close()
    await site.close()
  }
  return { view, site, wrong, close }
}
