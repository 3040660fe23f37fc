/**
 * `--ca`, `--cert`, `--key` and `--insecure`: TLS settings as options. Files become settings of the URL (`?ca=FILE`), so the child processes
 * of a command, which get its URL, use them, too. `--insecure` never becomes part of a URL: a user who gets one from a file or a variable must
 * not get unchecked certificates with it.
 */
import { resolve } from 'node:path'
import { badInput } from './exit.js'
import { plain } from './print.js'
import { readKeys, type Tls } from './tls.js'

export interface TlsOptions {
  /** Files in PEM form, as typed. */
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** Accept any certificate. */
  readonly insecure?: boolean | undefined
}

const files = ['ca', 'cert', 'key'] as const

function hasTlsOptions(options: TlsOptions): boolean {
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
  const named: Tls = Object.fromEntries(given)
  readKeys(named, (name) => `--${name} ${plain(named[name] ?? '')}`)
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

/** For a URL completed from the environment: an authority named there is not asked, and must not look as if it were. */
export function withoutAuthority(url: string): string {
  return url.replace(/([?&])ca=[^&]*&?/, '$1').replace(/[?&]$/, '')
}
