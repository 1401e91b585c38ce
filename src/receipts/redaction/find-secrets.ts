/** All the rules over one text. */
import { findAwsSecrets, findEncodedSecrets, findShortEncodedJson, nextRun } from './base64.ts'
import { hasBrokenWord, visibleText } from './colours.ts'
import { findCommandPasswords } from './command-passwords.ts'
import { mergeFindings, type SecretFinding } from './findings.ts'
import { findKeyValues } from './key-values.ts'
import { findPrivateKeyBlocks } from './private-key-blocks.ts'
import { findSpokenCredentials } from './spoken-credentials.ts'
import { findUrlSecrets } from './urls.ts'
import { findShapedTokens, findVendorTokens, VENDOR_TOKENS } from './vendor-tokens.ts'

/** Base64 inside base64 is followed this far. */
const DECODE_DEPTH = 2

const escapeForPattern = (literal: string) => literal.replace(/[.+/]/g, '\\$&')

/** One cheap look that lets most strings go: every rule needs one of these, or a long base64 run. */
const TRIGGER = new RegExp(
  [
    'token|pass|pwd|secret|cred|auth|cookie|key|mnemonic|bearer|basic|identified|curl|login|mysql|mariadb|redis-cli|openssl',
    String.raw`:\/\/|:\\|%3a%2f|@tcp\(|@unix\(|oracle:thin|sig=|signature|eyJ|eyAi|ewo[gJ]|W3si|Private-|-- ?BEGIN `,
    String.raw`\d:[\w-]{35}|\.[\w-]{6}\.[\w-]{27}`,
    ...VENDOR_TOKENS.flatMap(({ prefixes }) => prefixes.map(escapeForPattern)),
  ].join('|'),
  'i',
)

/** The shortest text any rule can fire on: `pwd=x`. */
const SHORTEST = 5

/** One lower-case word, as status words and names of fields are: too short and too plain for any token. */
const PLAIN_WORD = /^[a-z][a-z_.]{0,23}$/

export function mayHoldSecret(text: string): boolean {
  if (text.length < SHORTEST || PLAIN_WORD.test(text)) return false
  if (TRIGGER.test(text) || nextRun(text, 0) !== undefined) return true
  const visible = visibleText(text)
  return visible !== undefined && mayHoldSecret(visible.text)
}

/** Every finding of every rule, unmerged and in no order. */
export function findSecrets(text: string, depth = 0): readonly SecretFinding[] {
  if (!mayHoldSecret(text)) return []
  const findings = findAll(text, depth)
  return hasBrokenWord(text) ? [...findings, ...findInBrokenLines(text, depth)] : findings
}

/** Line by line, as a stream reads: what only its visible text gives away is looked for in no other line. */
function findInBrokenLines(text: string, depth: number): readonly SecretFinding[] {
  const findings: SecretFinding[] = []
  let from = 0
  for (const line of text.split('\n')) {
    const visible = visibleText(line)
    if (visible !== undefined && mayHoldSecret(visible.text)) {
      for (const { start, end, label } of findAll(visible.text, depth)) {
        const original = visible.original(start, end)
        findings.push({ start: from + original.start, end: from + original.end, label })
      }
    }
    from += line.length + 1
  }
  return findings
}

function findAll(text: string, depth: number): readonly SecretFinding[] {
  const findings: SecretFinding[] = []
  const report = (start: number, end: number, label: string) => {
    if (end > start) findings.push({ start, end, label })
  }
  findPrivateKeyBlocks(text, report)
  findVendorTokens(text, report)
  findShapedTokens(text, report)
  findUrlSecrets(text, report)
  findKeyValues(text, report)
  findSpokenCredentials(text, report)
  findCommandPasswords(text, report)
  findAwsSecrets(text, report)
  if (depth < DECODE_DEPTH) {
    const holdsSecretInside = (inner: string) => holdsSecret(inner, depth + 1)
    findEncodedSecrets(text, holdsSecretInside, report)
    findShortEncodedJson(text, holdsSecretInside, report)
  }
  return findings
}

function holdsSecret(text: string, depth: number): boolean {
  return mergeFindings(text, findSecrets(text, depth)).length > 0
}
