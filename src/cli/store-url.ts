/** Selects the store: `--on`, `HOLDFAST_URL`, the default of a configuration, or the embedded driver. */
import { dirname, isAbsolute, resolve } from 'node:path'
import { findConfig, isStoreName } from './config.js'
import { badInput, CliError } from './exit.js'
import { parseDirectory } from './local-directory.js'
import { didYouMean } from './nearest.js'
import { json, plain } from './print.js'
import { type TlsOptions, withoutAuthority, withTlsOptions } from './tls-options.js'
import { checkToolsFiles, withToolsEnvironment } from './tools-environment.js'
import { displayUrl } from './url.js'
import { expanded } from './url-variables.js'

export interface Chosen {
  /** Completed from the configuration and the environment; the same everywhere it is used. */
  readonly url: string
  /** Where the store's name was found; undefined: no name was used. */
  readonly from: { readonly store: string; readonly file: string } | undefined
  /** `--insecure`; not part of the URL. */
  readonly insecure: boolean
}

/**
 * @param on from `--on` or `HOLDFAST_URL`: the URL of a store, or its name in a configuration; undefined or empty: the default
 * @param tls options of the command
 * @throws CliError
 */
export function storeUrl(on: string | undefined = process.env.HOLDFAST_URL, tls: TlsOptions = {}): Chosen {
  const insecure = tls.insecure === true
  if (on !== undefined && on !== '' && !isStoreName(on))
    return { url: completed(on, tls), from: undefined, insecure }
  const config = findConfig()
  const store = on || config?.usual
  if (store === undefined) return { url: completed('local:', tls), from: undefined, insecure }
  // The value may be a password typed in place of the URL, so the message does not repeat it.
  if (config === undefined) {
    throw badInput(
      '--on and HOLDFAST_URL take the URL of a store, or the name of one in holdfast.json; there is no holdfast.json, and no "holdfast" in a package.json, in the working directory or above',
    )
  }
  const { file, stores } = config
  const url = stores.get(store)
  if (url === undefined) {
    const names = stores.size === 0 ? 'no stores' : `only ${[...stores.keys()].join(', ')}`
    throw badInput(`no store of that name: ${plain(file)} has ${names}${didYouMean(store, stores.keys())}`)
  }
  const from = { store, file }
  return {
    url: naming(from, () => completed(expanded(fromConfig(url, file), process.env), tls)),
    from,
    insecure,
  }
}

/** What the options say takes precedence over the environment. */
function completed(url: string, tls: TlsOptions): string {
  const given = withTlsOptions(url, tls)
  const filled = withToolsEnvironment(given)
  const whole = tls.insecure === true ? withoutAuthority(filled) : filled
  checkToolsFiles(given, whole)
  return whole
}

/** Resolves a relative directory against the file. Resolved against the working directory, every folder of the project would have its own locks. */
function fromConfig(url: string, file: string): string {
  const [, scheme, directory = ''] = /^(local:)(.+)$/is.exec(url) ?? []
  return scheme === undefined || isAbsolute(directory) ? url : `${scheme}${resolve(dirname(file), directory)}`
}

/** Prefixes errors with the store's name. */
export function naming<R>(from: Chosen['from'], read: () => R): R {
  try {
    return read()
  } catch (error) {
    if (from === undefined || !(error instanceof CliError)) throw error
    throw new CliError(error.exitCode, `store '${from.store}' in ${plain(from.file)}: ${error.message}`)
  }
}

/** Reports the chosen store on stderr: with `--verbose`, and with `--json` if a file decided it. Warns of `--insecure`. */
export function reportStore(
  { url, from, insecure }: Chosen,
  told: { json?: boolean | undefined; verbose?: boolean | undefined; quiet?: boolean | undefined },
): void {
  if (insecure && told.quiet !== true) warnInsecure(told.json === true)
  const [, scheme = '', rest = ''] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(url) ?? []
  const shown = displayUrl(scheme, rest)
  const [directory] = [parseDirectory(url)].filter((path) => path !== undefined && !shown.endsWith(path))
  if (told.json === true) {
    if (from === undefined && told.verbose !== true) return
    const named = from && { store: from.store, config: from.file }
    console.error(json({ event: 'store', url: shown, ...(directory && { directory }), ...named }))
  } else if (told.verbose === true) {
    const at = directory === undefined ? '' : ` in ${plain(directory)}`
    const where = `${at}${from === undefined ? '' : `, '${from.store}' in ${plain(from.file)}`}`
    console.error(`holdfast: the store is ${plain(shown)}${where}`)
  }
}

function warnInsecure(asJson: boolean): void {
  if (asJson) return console.error(json({ event: 'insecure' }))
  console.error(
    'holdfast: --insecure: the certificate of the store is not checked, so anybody on the way to it can read the password and answer in its place',
  )
}
