// docs/reference/options.md: every option of every entry point, from the docstrings, with the errors that a wrong value gets.
import { cell, code, page, table, usual } from './markdown.js'
import type { Declared, Member, Model } from './model.js'
import type { Say } from './words.js'
import type { WrongValues } from './wrong-values.js'

const introduction = `Every exported type of options, by entry point. What an option does, its unit, its default and its range are from its docstring;
the last column is the error that a wrong value gets, taken down by trying one. It is empty where none is refused ([which, and why](../../test/docs-reference.test.ts)). A duration
(\`Duration\`) is a number of milliseconds or text with a unit: \`'500ms'\`, \`'30s'\`, \`'1.5m'\`, \`'2h'\`, \`'1d'\`; at most 366 days. Locks and drivers refuse an
unknown option with a \`TypeError\`, too, and all bad input before any I/O.`

export function isOptions({ name, class: isClass }: Declared): boolean {
  return !isClass && /(?:Options|Defaults)$/.test(name)
}

export async function optionsPage(models: readonly Model[], wrong: WrongValues, say: Say): Promise<string> {
  const parts: string[] = []
  const seen = new Map<string, string>()
  for (const { specifier, declared } of models) {
    const options = declared.filter(isOptions)
    if (options.length > 0) parts.push(`## ${specifier}`)
    for (const one of options) {
      const same = JSON.stringify(one)
      const first = seen.get(same)
      if (first === undefined) parts.push(await section(specifier, one, wrong, say))
      else
        parts.push(
          say('{0} is the one of {1}.', code(one.name), `[\`${first}\`](#${one.name.toLowerCase()})`),
        )
      seen.set(same, first ?? specifier)
    }
  }
  return page(say('Options'), say(introduction), ...parts)
}

async function section(specifier: string, one: Declared, wrong: WrongValues, say: Say): Promise<string> {
  const rows = await Promise.all(one.members.map((member) => row(specifier, one.name, member, wrong, say)))
  const heads = ['option', 'type', 'default', 'what', 'a wrong value'].map((head) => say(head))
  return [
    `### ${one.name}`,
    cell(say(one.doc.text)),
    inherited(one, say),
    rows.length === 0 ? '' : table(heads, rows),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

async function row(
  specifier: string,
  name: string,
  member: Member,
  wrong: WrongValues,
  say: Say,
): Promise<string[]> {
  const errors = await wrong.of(specifier, name, member)
  const { text, default: byDefault } = member.doc
  return [
    code(member.name),
    cell(code(member.type)),
    member.optional ? usual(byDefault, say) : say('required'),
    cell(say(text)),
    cell(errors.join('; ')),
  ]
}

/** `Pick<AcquireOptions, 'wait' | 'ttl'>` in words. */
function inherited({ of }: Declared, say: Say): string {
  const [, how, from = of, names = ''] = /^(Pick|Omit)<(\w+), ([^>]+)>$/.exec(of) ?? []
  if (of === '') return ''
  const listed = [...names.matchAll(/'(\w+)'/g)].map(([, name = '']) => code(name)).join(', ')
  const whose = /^[A-Z]\w+(?:Options|Defaults)$|^Defaults$/.test(from)
    ? from === 'SecureContextOptions'
      ? code(from)
      : `[\`${from}\`](#${from.toLowerCase()})`
    : code(from)
  if (how === 'Pick') return say('From {0}: {1}.', whose, listed)
  return how === 'Omit'
    ? say('Everything of {0} except {1}.', whose, listed)
    : say('Everything of {0}.', whose)
}
