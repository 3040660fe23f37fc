/** TLS settings of a URL: `?tls=true&ca=FILE&cert=FILE&key=FILE`. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
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
 * @param about names a file in messages; default: as a setting of the URL
 * @throws CliError if a file cannot be read or is not what it should be, or certificate and key do not belong together.
 */
export function readKeys(
  files: Tls,
  about: (name: keyof Tls) => string = (name) => `${name}=${plain(files[name] ?? '')}`,
): Keys {
  const keys: Keys = {}
  for (const name of ['ca', 'cert', 'key'] as const) {
    const path = files[name]
    if (path !== undefined) keys[name] = readFile(about(name), path)
  }
  checkKeys(keys, about)
  return { ...keys, ...(!verifies && { rejectUnauthorized: false }) }
}

function readFile(file: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw badInput(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}

/** Node ignores an invalid authority; its errors about the others do not name the file. */
function checkKeys({ ca, cert, key }: Keys, about: (name: keyof Tls) => string): void {
  if (ca !== undefined) parse(about('ca'), 'a certificate', ca, toCertificate)
  if (cert === undefined || key === undefined) return
  const certificate = parse(about('cert'), 'a certificate', cert, toCertificate)
  const secret = parse(about('key'), 'a private key without a passphrase', key, toPrivateKey)
  if (!certificate.checkPrivateKey(secret))
    throw badInput(`${about('key')} is not the key of ${about('cert')}; give the two files of one pair`)
}

function parse<R>(file: string, what: string, content: Buffer, convert: (content: Buffer) => R): R {
  try {
    return convert(content)
  } catch {
    throw badInput(`${file} is not ${what} in PEM form`)
  }
}

// Loaded only where it is needed: that takes a while.
const crypto = (): typeof import('node:crypto') => createRequire(import.meta.url)('node:crypto')
const toCertificate = (content: Buffer) => new (crypto().X509Certificate)(content)
const toPrivateKey = (content: Buffer) => crypto().createPrivateKey(content)
