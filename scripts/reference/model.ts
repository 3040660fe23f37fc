// What API Extractor read of one entry point (`.api.json`), as far as the reference needs it.
import { readFileSync } from 'node:fs'

export interface Member {
  readonly name: string
  readonly type: string
  readonly optional: boolean
  readonly doc: Doc
}

/** An interface, a class or a type alias. */
export interface Declared {
  readonly name: string
  readonly doc: Doc
  /** What it extends, or, for an alias, stands for: `Pick<AcquireOptions, 'wait' | 'ttl'>`. */
  readonly of: string
  readonly class: boolean
  readonly members: readonly Member[]
}

export interface Model {
  /** `holdfast/redis` */
  readonly specifier: string
  readonly declared: readonly Declared[]
}

export interface Doc {
  /** In one line, without examples and tags. */
  readonly text: string
  readonly default: string | undefined
}

interface Item {
  readonly kind: string
  readonly name: string
  readonly docComment?: string
  readonly excerptTokens?: readonly { readonly text: string }[]
  readonly isOptional?: boolean
  readonly propertyTypeTokenRange?: Range
  readonly members?: readonly Item[]
}

interface Range {
  readonly startIndex: number
  readonly endIndex: number
}

export function readModel(specifier: string, path: string): Model {
  const { members } = JSON.parse(readFileSync(path, 'utf8')) as { members: readonly Item[] }
  const kinds = ['Interface', 'Class', 'TypeAlias']
  const items = members[0]?.members?.filter(({ kind }) => kinds.includes(kind)) ?? []
  return { specifier, declared: items.map(declaredBy) }
}

function declaredBy(item: Item): Declared {
  const head = toText(item)
  const [, alias] = /^export type [^=]+ = ([^;]+);?$/.exec(head) ?? []
  const [, parent] = / extends (.+)$/.exec(head) ?? []
  return {
    name: item.name,
    doc: parseDoc(item.docComment),
    of: alias ?? parent ?? '',
    class: item.kind === 'Class',
    members: (item.members ?? []).flatMap((member) => {
      const range = member.propertyTypeTokenRange
      if (range === undefined) return []
      const { name, isOptional = false, docComment } = member
      return [{ name, type: toText(member, range), optional: isOptional, doc: parseDoc(docComment) }]
    }),
  }
}

function toText({ excerptTokens = [] }: Item, { startIndex, endIndex }: Partial<Range> = {}): string {
  return excerptTokens
    .slice(startIndex, endIndex)
    .map(({ text }) => text)
    .join('')
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/\s+/g, ' ')
    .trim()
}

/** The default is the tag `@default`, a sentence such as `Default 500.`, or the value marked `(default)`. */
export function parseDoc(comment = ''): Doc {
  const lines = comment.replace(/^\s*\/\*\*|\*\/\s*$/g, '').replace(/^\s*\* ?/gm, '')
  const prose = lines.replace(/```[\s\S]*?```/g, '')
  const [, tagged] = /@default\s+([^@]+)/.exec(prose) ?? []
  const all = prose
    .replace(/(^|\s)@\w+(\s[\s\S]*)?$/, '')
    .replace(/\{@link (\w+)\}/g, '`$1`')
    .replace(/\s+/g, ' ')
    .trim()
  const [, value] = /\bDefault:? (`[^`]+`|[\d_]+)(?=[.,: ]|$)/.exec(all) ?? []
  const sentence = /(?:^|(?<=\. ))Default:? (.+?)\.(?= [A-Z`]|$) ?/
  const [, said = value] = sentence.exec(all) ?? []
  const [, marked] = /(`[^`]+`) \(default\)/.exec(all) ?? []
  return {
    text: (value === undefined || said === value ? all.replace(sentence, '') : all).trim(),
    default: tagged?.replace(/\s+/g, ' ').trim() ?? value ?? said ?? marked,
  }
}
