/** TLS settings of a URL: `?tls=true&ca=FILE&cert=FILE&key=FILE`. */
import { readFileSync } from 'node:fs'
import { badInput } from './exit.js'
import { plain } from './print.js'

/** A boolean setting: `?tls`, `?tls=true`, `?tls=false`. @throws CliError */
export function parseFlag(
  query: ReadonlyMap<string, string>,
  key: string,
  shown: string,
): boolean | undefined {
  const text = query.get(key)
  if (text === undefined) return undefined
  if (text === 'false') return false
  if (text === '' || text === 'true') return true
  throw badInput(`'${shown}' has ${key}=${text}; it is true or false`)
}

/** PEM files. */
export interface Tls {
  /** Trusted authorities. Default: those Node trusts. */
  readonly ca?: string
  /** The client certificate and its key. */
  readonly cert?: string
  readonly key?: string
}

export const tlsSettings = ['tls', 'ca', 'cert', 'key'] as const

/** @param implied by the scheme or the context. @throws CliError */
export function parseTls(
  query: ReadonlyMap<string, string>,
  shown: string,
  implied: Tls | undefined,
): Tls | undefined {
  const flag = parseFlag(query, 'tls', shown)
  const [ca, cert, key] = (['ca', 'cert', 'key'] as const).map((name) => query.get(name))
  const files = {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  }
  if ((cert === undefined) !== (key === undefined)) {
    throw badInput(`'${shown}' has one of cert and key; a certificate of the client needs both`)
  }
  if (flag === false) {
    if (Object.keys(files).length > 0) throw badInput(`'${shown}' has tls=false beside a ca, cert or key`)
    return undefined
  }
  return flag === true || Object.keys(files).length > 0 ? { ...implied, ...files } : implied
}

export interface Keys {
  ca?: Buffer
  cert?: Buffer
  key?: Buffer
  /** False: `--insecure`. */
  rejectUnauthorized?: false
}

/**
 * Of the whole process: `--insecure` is an option of a command, and every connection of that command follows it. Child processes get it from
 * their parent.
 */
let verifies = true

/** From now on this process accepts any certificate. */
export function acceptAnyCertificate(): void {
  verifies = false
}

export function acceptsAnyCertificate(): boolean {
  return !verifies
}

/**
 * Options for `tls.connect`.
 * @param dashes before the names in messages: for files that were given as options
 * @throws CliError if a file cannot be read.
 */
export function readKeys({ ca, cert, key }: Tls, dashes: '' | '--' = ''): Keys {
  const read = (what: string, path: string) => readFile(dashes === '' ? `${what}=` : `--${what} `, path)
  return {
    ...(ca !== undefined && { ca: read('ca', ca) }),
    ...(cert !== undefined && { cert: read('cert', cert) }),
    ...(key !== undefined && { key: read('key', key) }),
    ...(!verifies && { rejectUnauthorized: false }),
  }
}

function readFile(what: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw badInput(`${what}${plain(path)} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}
