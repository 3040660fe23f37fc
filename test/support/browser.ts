// Chromium, unpacked like a server, for the tests of pages. It needs nothing of the machine but the C library.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { unpacked } from './servers/fetch.js'

export interface StartedBrowser extends AsyncDisposable {
  readonly browser: Browser
  close(): Promise<void>
}

/** @throws Error when it cannot be fetched or does not start: a missing browser fails a test, it never skips one */
export async function startBrowser(): Promise<StartedBrowser> {
  const { root, libraries } = await unpacked('chromium')
  const home = mkdtempSync(join(tmpdir(), 'holdfast-browser-'))
  const fonts = join(home, 'fonts.conf')
  writeFileSync(
    fonts,
    `<fontconfig><dir>${root}/usr/share/fonts</dir><cachedir>${home}/fonts</cachedir></fontconfig>`,
  )
  const browser = await chromium.launch({
    executablePath: join(root, 'usr/lib/chromium/chromium'),
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-dev-shm-usage',
    ],
    env: {
      ...process.env,
      HOME: home,
      FONTCONFIG_FILE: fonts,
      LD_LIBRARY_PATH: `${libraries}:${libraries.replace('/usr/lib/', '/lib/')}:${libraries}/pulseaudio`,
    },
    timeout: 60_000,
  })
  const close = async () => {
    await browser.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  return { browser, close, [Symbol.asyncDispose]: close }
}
