/** RFC 8785 canonical JSON: the same value always gives the same bytes. */

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }

/** Throws TypeError for what JSON cannot represent: NaN, infinities, lone surrogates, bigint, functions. */
export function canonicalJson(value: Json): string {
  if (typeof value === 'string') return quoteJson(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError('canonical JSON has no NaN or infinity')
    return JSON.stringify(value)
  }
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object') throw new TypeError(`canonical JSON has no ${typeof value}`)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const record = value as { readonly [key: string]: Json | undefined }
  let out = ''
  for (const key of sortKeys(record)) {
    const member = record[key]
    if (member === undefined) continue
    out += `${out === '' ? '' : ','}${quoteJson(key)}:${canonicalJson(member)}`
  }
  return `{${out}}`
}

/** Most objects have their keys in order already, and a check is cheaper than a sort. */
export function sortKeys(record: object): string[] {
  const keys = Object.keys(record)
  for (let i = 1; i < keys.length; i++) if (keys[i - 1]! > keys[i]!) return keys.sort()
  return keys
}

/** Printable ASCII without quotes and backslashes. Most strings match, and they need no escaping. */
const PLAIN = /^[ !#-[\]-~]*$/

/** Returns one string as JSON. Throws TypeError on lone surrogates. */
export function quoteJson(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  if (!text.isWellFormed()) throw new TypeError('canonical JSON has no lone surrogates')
  return JSON.stringify(text)
}
