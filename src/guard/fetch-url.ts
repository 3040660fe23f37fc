/** What `fetch` would refuse with an error that repeats the whole URL, password and all, is refused here. */
import { describe } from '../core/name.js'

/** @throws TypeError that names the URL without its password */
export function checkFetchUrl(url: unknown, example: string): void {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol))
    throw new TypeError(`url must be like '${example}', got ${describe(url)}`)
  if (parsed.username !== '' || parsed.password !== '')
    throw new TypeError(
      `the url ${describe(url)} has a login in it, which fetch refuses; send the login in a header, by a function of your own as send`,
    )
}
