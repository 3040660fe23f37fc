/**
 * Words to search by: Latin words as they are, runs of Chinese characters as each character and each pair, so that 看门狗 is found by
 * 看门狗, 门狗 and 狗. The page gets this function as text: it may use nothing from outside itself.
 */
export function tokenize(text: string): string[] {
  const tokens: string[] = []
  for (const [run] of text
    .toLowerCase()
    .matchAll(/\p{Script=Han}+|[\p{L}\p{N}_]+?(?=\p{Script=Han}|[^\p{L}\p{N}_]|$)/gu)) {
    if (!/^\p{Script=Han}/u.test(run)) tokens.push(run)
    else {
      const characters = [...run]
      tokens.push(...characters)
      for (let at = 1; at < characters.length; at++) tokens.push(`${characters[at - 1]}${characters[at]}`)
    }
  }
  return tokens
}
