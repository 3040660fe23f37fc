// The pages that are published: README and what it leads to, in both languages. A link from them to a file that is not published becomes
// plain text, or leads into the repository where HOLDFAST_REPOSITORY gives its address, as for the site.
import { posix } from 'node:path'
import { listFiles } from '../test/support/checkout.js'

const first = ['start', 'which-one', 'guarantees', 'production', 'runbooks', 'versioning']

/** Paths of the published pages, from the root of the repository. */
export function publishedPages(): string[] {
  return [
    'README.md',
    'README.zh-CN.md',
    'CHANGELOG.md',
    ...first.map((page) => `docs/${page}.md`),
    ...first.map((page) => `docs/zh/${page}.md`),
    ...listFiles('docs/drivers', '.md'),
  ]
}

/**
 * A page as it is published.
 *
 * @param path of the page, from the root of the repository
 * @param published the paths of all files that are published
 * @param repository address of the repository's files, with a slash at its end
 */
export function publishedPage(
  path: string,
  text: string,
  published: ReadonlySet<string>,
  repository: string | undefined,
): string {
  return outsideFences(text, (part) =>
    part.replace(/(?<!!)\[((?:`[^`]*`|[^[\]`])*)\]\(([^\s)]+)\)/g, (whole, name: string, target: string) => {
      if (/^([a-z][a-z+.-]*:|#)/i.test(target)) return whole
      const [file = '', anchor] = target.split('#')
      const to = posix.join(posix.dirname(path), decodeURI(file))
      if (published.has(to)) return whole
      if (repository === undefined) return name
      return `[${name}](${repository}${encodeURI(to)}${anchor ? `#${anchor}` : ''})`
    }),
  )
}

/** The changelog from its newest release on: what is pending is not in what is published. */
export function releasedChanges(changelog: string): string {
  return changelog.replace(/^## Pending\n[\s\S]*?(?=^## |(?![\s\S]))/m, '')
}

function outsideFences(text: string, change: (part: string) => string): string {
  return text
    .split(/^(```[\s\S]*?^```$)/m)
    .map((part) => (part.startsWith('```') ? part : change(part)))
    .join('')
}
