/** Which page: `#/store/name` is that of a name. */
import { useEffect, useState } from 'preact/hooks'

export interface Route {
  readonly store?: string
  readonly name?: string
}

export function hrefOf(store: string, name: string): string {
  return `#/${encodeURIComponent(store)}/${encodeURIComponent(name)}`
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
