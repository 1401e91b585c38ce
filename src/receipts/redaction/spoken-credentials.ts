/** Credentials recognized by the preceding word or command: `Bearer x`, `curl -u user:pass`, SQL, netrc. */

import { isBasicPair } from './authorization.ts'
import { alphabet, runEnd } from './characters.ts'
import type { ReportFinding } from './findings.ts'
import { isPlaceholder } from './placeholders.ts'
import { bareExtent, findQuotedExtent, openingQuote } from './value-extents.ts'

const CREDENTIAL = alphabet(/[A-Za-z0-9._~+/=|:%-]/)
const BEARER_PROSE =
  /^(?:authentication|authorization|credentials?|instruments?|securities|tokens?|scheme|challenge|header|flow|access|methods?)$/i

export function findSpokenCredentials(text: string, report: ReportFinding): void {
  if (/be|ba/i.test(text)) findSchemes(text, report)
  if (text.includes('curl')) findCurlLogins(text, report)
  if (/identified|pass/i.test(text)) findStatements(text, report)
}

function findSchemes(text: string, report: ReportFinding): void {
  for (const match of text.matchAll(
    /(?:bearer|basic)(?:[ \t]{1,4}["']?|%20|\+|:[ \t]?["']?)(?=[A-Za-z0-9._~+/=%-])/gi,
  )) {
    const start = match.index + match[0].length
    const end = runEnd(text, start, CREDENTIAL)
    const value = text.slice(start, end).replace(/[.:]+$/, '')
    const isCredential = /^bearer/i.test(match[0])
      ? isBearer(value, match[0].startsWith('b'))
      : isBasicPair(value)
    if (isCredential) report(start, start + value.length, 'authorization')
  }
}

function isBearer(value: string, lowerCase: boolean): boolean {
  if (value.length < 8 || isPlaceholder(value)) return false
  if (!/^[A-Za-z]{8,24}$/.test(value))
    return /\d/.test(value.slice(0, 512)) || value.length > 24 || /[A-Z]./.test(value)
  return !BEARER_PROSE.test(value) && (!lowerCase || /[a-z][A-Z]/.test(value))
}

const CURL_LOGIN =
  /[\s"'](?:(?:-u|-U|--user|--proxy-user)(?:[ =]{0,4}|["'][ \t]{0,4},[ \t]{0,4})["']?(?=[^\s:"',=-][^\s:"',]{0,64}:[^\s/])|-b[ \t]{1,4}["']?(?=[\w.-]{1,64}=))/g

/** `-u user:pass` and `-b name=value`. In other commands these flags have other meanings. */
function findCurlLogins(text: string, report: ReportFinding): void {
  for (const match of text.matchAll(CURL_LOGIN)) {
    const line = text.slice(Math.max(0, match.index - 512), match.index)
    if (!line.slice(line.lastIndexOf('\n') + 1).includes('curl')) continue
    const start = match.index + match[0].length
    const quote = openingQuote(text, start - 1)
    const { end } = quote === undefined ? bareExtent(text, start, false) : findQuotedExtent(text, quote.at, 0)
    const [, password] = text.slice(start, end).split(/[:=](.*)/s, 2)
    if (!isPlaceholder(password ?? '')) report(start, end, 'basic_credentials')
  }
}

/** Commands and files in which the position identifies a password. */
const POSITIONED = [
  { label: 'netrc', pattern: /\blogin[ \t]{1,8}\S{1,128}[ \t]{1,8}password[ \t]{1,8}(\S+)/g },
  { label: 'command', pattern: /\bsshpass[ \t]{1,4}-p[ \t]{0,4}(\S+)/g },
  { label: 'command', pattern: /-pass(?:in|out)?[ \t]{1,4}["']?pass:(\S+)/g },
  {
    label: 'command',
    pattern: /\becho[ \t]{1,4}(?:-n[ \t]{1,4})?(\S+)[ \t]{0,4}\|[^|\n]{0,96}--password-stdin/g,
  },
]

function findStatements(text: string, report: ReportFinding): void {
  for (const match of text.matchAll(/\bidentified (?:with \S{1,40} )?by (?=["'])/gi)) {
    const quoted = findQuotedExtent(text, match.index + match[0].length, 0)
    if (!isPlaceholder(text.slice(quoted.start, quoted.end))) report(quoted.start, quoted.end, 'key_value')
  }
  for (const { label, pattern } of POSITIONED) {
    for (const match of text.matchAll(pattern)) {
      const value = match[1]!.replace(/^["']|["']$/g, '')
      const start = match.index + match[0].indexOf(value, match[0].indexOf(match[1]!))
      if (!isPlaceholder(value)) report(start, start + value.length, label)
    }
  }
}
