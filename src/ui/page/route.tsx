/** Which page: `#/store/name` is that of a name. */
import { useEffect, useRef, useState } from 'preact/hooks'

export interface Route {
  readonly store?: string
  readonly name?: string
}

export function hrefOf(store: string, name: string): string {
  return `#/${encodeURIComponent(store)}/${encodeURIComponent(name)}`
}

/**
 * @param path of a route of the server, such as `events`
 * @returns its address: beside this script, because the page's own address may have no slash at its end
 */
export function routeUrl(path: string): string {
  return new URL(path, import.meta.url).href
}

function routeOf(hash: string): Route {
  const [, store, name] = /^#\/([^/]+)\/(.+)$/.exec(hash) ?? []
  if (store === undefined || name === undefined) return {}
  try {
    return { store: decodeURIComponent(store), name: decodeURIComponent(name) }
  } catch {
    return {}
  }
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const changed = () => setHash(location.hash)
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return routeOf(hash)
}

/** The page of a name that was shown before this one. */
export function useLeft(route: Route): Route | undefined {
  const left = useRef<Route | undefined>(undefined)
  if (route.name !== undefined) left.current = route
  return left.current
}
