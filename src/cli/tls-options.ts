/**
 * `--ca`, `--cert`, `--key` and `--insecure`: TLS settings as options. Files become settings of the URL (`?ca=FILE`), so the child processes
 * of a command, which get its URL, use them, too. `--insecure` never becomes part of a URL: whoever gets one from a file or a variable must
 * not get unchecked certificates with it.
 */
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { badInput } from './exit.js'
import { plain } from './print.js'
import { readKeys } from './tls.js'

export interface TlsOptions {
  /** Files in PEM form, as typed. */
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** Accept any certificate. */
  readonly insecure?: boolean | undefined
}

const files = ['ca', 'cert', 'key'] as const

export function hasTlsOptions(options: TlsOptions): boolean {
  return options.insecure === true || files.some((name) => options[name] !== undefined)
}

/**
 * Reads the files, for errors before any I/O to the store, and adds them to the URL.
 * @param url as given with `--on` or in a configuration, before anything is added from the environment
 * @throws CliError
 */
export function withTlsOptions(url: string, options: TlsOptions): string {
  if (!hasTlsOptions(options)) return url
  checkCombination(options)
  const given = files.flatMap((name) => {
    const file = options[name]
    return file === undefined ? [] : [[name, resolve(file)] as const]
  })
  if (/^local:/i.test(url))
    throw badInput(
      `${optionNames(options)}: local: needs no TLS, its locks stay on this machine; leave that out, or name a store across a network with --on`,
    )
  for (const name of optionNames(options).split(', ')) refuseTwice(url, name.slice(2))
  checkFiles(Object.fromEntries(given))
  const settings = given.map(([name, file]) => `${name}=${encodeURIComponent(file).replaceAll('%2F', '/')}`)
  return settings.length === 0 ? url : `${url}${url.includes('?') ? '&' : '?'}${settings.join('&')}`
}

function optionNames(options: TlsOptions): string {
  const named = files.filter((name) => options[name] !== undefined).map((name) => `--${name}`)
  return [...named, ...(options.insecure === true ? ['--insecure'] : [])].join(', ')
}

function checkCombination({ ca, cert, key, insecure }: TlsOptions): void {
  for (const [name, file] of Object.entries({ ca, cert, key }))
    if (file === '') throw badInput(`--${name} is empty; it takes a file in PEM form`)
  if (cert !== undefined && key === undefined)
    throw badInput('--cert needs --key, the private key of that certificate')
  if (key !== undefined && cert === undefined)
    throw badInput('--key needs --cert, the certificate of that key')
  if (ca !== undefined && insecure === true)
    throw badInput(
      '--ca and --insecure exclude each other: the one names who may sign certificates, the other accepts any; leave out one',
    )
}

/** The message names no value: the URL may contain a password. */
function refuseTwice(url: string, name: string): void {
  const has = (setting: string) => new RegExp(`[?&]${setting}(=|&|$)`).test(url)
  if (name === 'insecure' ? has('ca') : has(name)) {
    throw badInput(
      name === 'insecure'
        ? '--insecure accepts any certificate, but the URL of the store has ca=, which says who may sign them; leave out one of them'
        : `the URL of the store has ${name}=, too; leave it out there, or leave out --${name}`,
    )
  }
  if (/[?&]tls=false(&|$)/.test(url))
    throw badInput(`the URL of the store has tls=false; leave it out there, or leave out --${name}`)
}

/** Are they what they should be, and do certificate and key belong together? */
function checkFiles(given: { readonly ca?: string; readonly cert?: string; readonly key?: string }): void {
  const { ca, cert, key } = readKeys(given, '--')
  const about = (name: 'ca' | 'cert' | 'key') => `--${name} ${plain(given[name] ?? '')}`
  if (ca !== undefined) read(about('ca'), 'a certificate', ca, parseCertificate)
  if (cert === undefined || key === undefined) return
  const certificate = read(about('cert'), 'a certificate', cert, parseCertificate)
  const secret = read(about('key'), 'a private key without a passphrase', key, parseKey)
  if (!certificate.checkPrivateKey(secret))
    throw badInput(`${about('key')} is not the key of ${about('cert')}; give the two files of one pair`)
}

function read<R>(file: string, what: string, content: Buffer, parse: (content: Buffer) => R): R {
  try {
    return parse(content)
  } catch {
    throw badInput(`${file} is not ${what} in PEM form`)
  }
}

// Loaded only where it is needed: that takes a while.
const crypto = (): typeof import('node:crypto') => createRequire(import.meta.url)('node:crypto')
const parseCertificate = (content: Buffer) => new (crypto().X509Certificate)(content)
const parseKey = (content: Buffer) => crypto().createPrivateKey(content)

/** For a URL completed from the environment: an authority named there is not asked, and must not look as if it were. */
export function withoutAuthority(url: string): string {
  return url.replace(/([?&])ca=[^&]*&?/, '$1').replace(/[?&]$/, '')
}
