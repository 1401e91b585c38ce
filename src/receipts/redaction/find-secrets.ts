/** Applies all rules to one text. */
import { findAwsSecrets, findEncodedSecrets, findShortEncodedJson, nextRun } from './base64.ts'
import { hasBrokenWord, visibleText } from './colours.ts'
import { findCommandPasswords } from './command-passwords.ts'
import { mergeFindings, type SecretFinding } from './findings.ts'
import { findKeyValues } from './key-values.ts'
import { findPrivateKeyBlocks } from './private-key-blocks.ts'
import { findSpokenCredentials } from './spoken-credentials.ts'
import { findUrlSecrets } from './urls.ts'
import { findShapedTokens, findVendorTokens, VENDOR_TOKENS } from './vendor-tokens.ts'

/** The depth to which base64 within base64 is decoded. */
const DECODE_DEPTH = 2

const escapeForPattern = (literal: string) => literal.replace(/[.+/]/g, '\\$&')

/** A cheap check that skips most strings: every rule needs one of these, or a long base64 run. */
const TRIGGER = new RegExp(
  [
    'token|pass|pwd|secret|cred|auth|cookie|key|mnemonic|bearer|basic|identified|curl|login|mysql|mariadb|redis-cli|openssl',
    String.raw`:\/\/|:\\|%3a%2f|@tcp\(|@unix\(|oracle:thin|sig=|signature|eyJ|eyAi|ewo[gJ]|W3si|Private-|-- ?BEGIN `,
    String.raw`\d:[\w-]{35}|\.[\w-]{6}\.[\w-]{27}`,
    ...VENDOR_TOKENS.flatMap(({ prefixes }) => prefixes.map(escapeForPattern)),
  ].join('|'),
  'i',
)

/** The shortest text that any rule matches: `pwd=x`. */
const SHORTEST = 5

/** One lower-case word, such as a status or a field name: too short and too plain for any token. */
const PLAIN_WORD = /^[a-z][a-z_.]{0,23}$/

export function mayHoldSecret(text: string): boolean {
  if (text.length < SHORTEST || PLAIN_WORD.test(text)) return false
  if (TRIGGER.test(text) || nextRun(text, 0) !== undefined) return true
  const visible = visibleText(text)
  return visible !== undefined && mayHoldSecret(visible.text)
}

/** Returns every finding of every rule, unmerged and unordered. */
export function findSecrets(text: string, depth = 0): readonly SecretFinding[] {
  if (!mayHoldSecret(text)) return []
  const findings = findAll(text, depth)
  return hasBrokenWord(text) ? [...findings, ...findInBrokenLines(text, depth)] : findings
}

/** Works line by line, as a stream does. Only lines with broken words need a search of their visible text. */
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
