/** Serves the page until a signal ends it. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, isIPv6 } from 'node:net'
import { createLocks } from 'holdfast'
import { type LockPage, lockPage, type PageOptions, type StoreOptions } from 'holdfast/ui'
import type { Connection, StoreTarget } from '../connect.js'
import { examine } from '../doctor/examine.js'
import { diagnose } from '../doctor/report.js'
import { badInput, CliError, exits } from '../exit.js'
import { explain } from '../explain.js'
import { orOtherServer } from '../other-server.js'
import { brief, plain } from '../print.js'

export interface ServeOptions {
  readonly port: number
  readonly listen: string
  readonly hostName: readonly string[]
  readonly prefix?: string
  readonly allowRelease?: true
}

const loopback = ['127.0.0.1', 'localhost', '::1']

/** @throws CliError: no token where one is needed, or the address cannot be listened on */
export async function serve(targets: readonly StoreTarget[], options: ServeOptions): Promise<void> {
  const token = tokenFor(options)
  for (const name of options.hostName)
    if (/[/\s*]|:\d+$/.test(name))
      throw badInput(`--host-name must be a name without a port and without a path, got '${plain(name)}'`)
  const opened = await Promise.all(targets.map(open))
  const page = lockPage(pageOptions(opened, options, token))
  const server = createServer(page.node)
  try {
    const { port } = await listening(server, options)
    console.log(
      `${formatAddress(options, port)}/${token === undefined ? '' : `?token=${encodeURIComponent(token)}`}`,
    )
    console.error(`holdfast: showing ${targets.map(({ shown }) => plain(shown)).join(', ')}; end with Ctrl-C`)
    await waitForSignal()
  } finally {
    await close(page, server)
    await Promise.all(opened.map((one) => one.close()))
  }
}

interface Opened {
  readonly id: string
  readonly store: StoreOptions
  readonly close: () => Promise<void>
}

async function open(target: StoreTarget, index: number, all: readonly StoreTarget[]): Promise<Opened> {
  const connection = await target.connect()
  const locks = createLocks(connection.driver)
  const { name } = locks.driver
  const same = all.length > 1 ? `${index + 1}-` : ''
  const answered = new AbortController()
  return {
    id: `${same}${name}`,
    store: {
      locks: {
        ...locks,
        list: (prefix) => explainErrors(locks.list(prefix), target, connection, answered),
      },
      description: target.shown,
      doctor: async () => diagnose(target.shown, await examine(target)).findings,
    },
    close: async () => {
      await locks.close()
      await connection.close()
    },
  }
}

/** Rejects with what the command line says elsewhere: the address, and the client's latest error. */
async function explainErrors<T>(
  work: Promise<T>,
  target: StoreTarget,
  { lastError }: Connection,
  answered: AbortController,
): Promise<T> {
  try {
    const found = await orOtherServer(target, work, answered.signal)
    answered.abort()
    return found
  } catch (error) {
    throw await explain(error, target, lastError)
  }
}

function pageOptions(
  opened: readonly Opened[],
  options: ServeOptions,
  token: string | undefined,
): PageOptions {
  const { listen, hostName, prefix, allowRelease = false } = options
  const own = isIPv6(listen) ? `[${listen}]` : listen
  return {
    stores: Object.fromEntries(opened.map(({ id, store }) => [id, store])),
    hosts: ['localhost', '127.0.0.1', '[::1]', own, ...hostName].map((name) => name.toLowerCase()),
    allowRelease,
    ...(token !== undefined && { token }),
    ...(prefix !== undefined && { prefix }),
    onRelease: ({ store, name, why, outcome, tokens }) =>
      console.error(
        `holdfast: "${plain(name)}" of ${store}, token ${tokens.join(', ')}: ${outcome} on the page; ${brief(why)}`,
      ),
  }
}

/** Anybody who reaches the port sees every lock, and could release them: beyond this machine's own readers, they need a token. */
function tokenFor({ listen, allowRelease }: ServeOptions): string | undefined {
  const given = process.env['HOLDFAST_UI_TOKEN']
  if (given !== undefined && given !== '') {
    if (given.length < 16) throw badInput('HOLDFAST_UI_TOKEN must have at least 16 characters')
    return given
  }
  return loopback.includes(listen) && allowRelease !== true
    ? undefined
    : randomBytes(18).toString('base64url')
}

async function listening(server: Server, { listen, port }: ServeOptions): Promise<AddressInfo> {
  server.listen(port, listen)
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const why = code === 'EADDRINUSE' ? 'it is in use; choose another with --port, or 0 for any' : message
    throw new CliError(exits.failed, `cannot listen on ${plain(listen)} port ${port}: ${why}`)
  }
  return server.address() as AddressInfo
}

function formatAddress({ listen }: ServeOptions, port: number): string {
  return `http://${isIPv6(listen) ? `[${listen}]` : listen}:${port}`
}

async function waitForSignal(): Promise<void> {
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
}

async function close(page: LockPage, server: Server): Promise<void> {
  page.close()
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeAllConnections()
  await closed
}
