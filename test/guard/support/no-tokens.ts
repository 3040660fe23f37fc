import assert from 'node:assert/strict'

/** Texts that a store may keep where a token belongs, and that some store, or JavaScript, takes for a number. */
export const noTokens: readonly string[] = [
  ' ',
  'none',
  '1e0',
  '0x1',
  '+1',
  '-1',
  ' 1',
  '1 ',
  '1\n',
  '1.0',
  '1/',
  '0000000000000001x',
  'Infinity',
  '-inf',
  'nan',
  '\u0661',
  '9007199254740993',
  '99999999999999999',
]

/** For `assert.rejects`: the guard names the place, and what it found there. */
export const isNoToken = (where: string, found: string) => (error: unknown) => {
  assert.ok(error instanceof TypeError, `${JSON.stringify(found)}: ${error}`)
  const what = found === '' ? 'is empty' : 'has "'
  assert.ok(error.message.startsWith(`${where} ${what}`), `${JSON.stringify(found)}: ${error}`)
  return true
}
