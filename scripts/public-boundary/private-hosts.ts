/** Finds host names and addresses that have a meaning only in a private network. */
import type { Breach, Rule } from './rule.ts'

const SUFFIXES =
  'local|internal|corp|lan|intranet|private|localdomain|home|home\\.arpa|cluster\\.local|ts\\.net|localnet'
const NAMED = new RegExp(
  String.raw`(?<![\w.$@/-])(?:[a-z0-9][a-z0-9-]*\.)+(?:${SUFFIXES})(?![\w(-]|\.\w)`,
  'gi',
)
const IN_URL = new RegExp(
  String.raw`(?:\/\/|@)((?:[a-z0-9][a-z0-9-]*\.)+(?:${SUFFIXES}))(?![\w-]|\.\w)`,
  'gi',
)
/** A URL with a one-word host resolves only in a network that is set up for it. */
const ONE_WORD =
  /\b(?:https?|wss?|ssh|postgres(?:ql)?|redis|git):\/\/(?:[^\s/@"'`]*@)?([a-z][a-z0-9-]*)(?![^\s/"'`]*@)(?=[:/"'`\s)])/gi
/** `octo@buildbox:~$`, as prompts and scp write a host. */
const PROMPT = /(?<![\w.@/-])[a-z_][\w.-]*@([a-z][\w-]*):[~/]/gi
/** `ssh octo@buildbox`, and at a prompt `ssh buildbox`: a one-word name, which exists in one network. */
const LOGIN =
  /\b(?:ssh|scp|sftp|rsync|mosh|ssh-copy-id)\b[^\n]*?[\s'"][a-z_][\w.-]*@([a-z][\w-]*)(?![\w-]|\.\w)/gi
const LOGIN_AT_PROMPT = /^[ \t]*[$%>] +(?:ssh|sftp|mosh)(?: +-\w+)* +([a-z][\w-]*)(?=[ \t]|$)/gim
const IPV4 = /(?<![\w.])(\d{1,3})\.(\d{1,3})\.\d{1,3}\.\d{1,3}(?!\.?\w)(\/\d{1,2})?/g
const IPV6 = /(?<![\w:])(?:f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):[0-9a-f:]*[0-9a-f:](?![\w:])(\/\d{1,3})?/gi

/** Names that are the same for everyone, each with the reason why a page contains it. */
const SAME_FOR_EVERYONE: Readonly<Record<string, string>> = {
  localhost: 'every machine calls itself that',
  host: 'the word itself, where any host may stand',
  'craik.local': 'the origin that a log signs its checkpoints under, no host',
  craik: 'the authority in requests over the supervisor’s socket, resolved by nobody',
  sidecar: 'the authority in requests over the boundary, resolved by nobody',
  'v4.local': 'the header of a PASETO token, no host',
  'metadata.google.internal': 'the attack that a loopback check must refuse',
  '169.254.169.254': 'the attack that a loopback check must refuse',
  'host.docker.internal': 'the name an engine gives its own host',
}

export const privateHosts: Rule = {
  name: 'private-host',
  instead: 'a name under .example or .test, or an address of RFC 5737',
  *find(text, form): Iterable<Breach> {
    for (const pattern of [NAMED, IN_URL, ONE_WORD, PROMPT, LOGIN, LOGIN_AT_PROMPT])
      for (const match of text.matchAll(pattern)) {
        const host = match[1] ?? match[0]
        // In code, a name such as `store.home` is a property, unless it is in a string or a comment.
        if (pattern === NAMED && form === 'code' && !isWritten(text, match.index)) continue
        if (!(host.toLowerCase() in SAME_FOR_EVERYONE)) yield { start: match.index, what: host }
      }
    for (const match of text.matchAll(IPV4)) {
      const [address, first, second, prefix] = match
      // A whole range, with its prefix length, is a rule and not a host.
      if (prefix !== undefined || address in SAME_FOR_EVERYONE) continue
      if (isPrivateIpv4(Number(first), Number(second))) yield { start: match.index, what: address }
    }
    for (const match of text.matchAll(IPV6))
      if (match[1] === undefined) yield { start: match.index, what: match[0] }
  },
}

/**
 * Returns whether a position in code is in a string, a template or a comment, as far as its line and the backquotes
 * before it show.
 */
function isWritten(text: string, at: number): boolean {
  const line = text.slice(text.lastIndexOf('\n', at) + 1, at)
  const count = (within: string, quote: string) => within.split(quote).length - 1
  const isOpen = (within: string, quote: string) => count(within, quote) % 2 === 1
  const isComment = line.includes('//') || /^\s*\/?\*/.test(line)
  return isComment || isOpen(line, "'") || isOpen(line, '"') || isOpen(text.slice(0, at), '`')
}

function isPrivateIpv4(first: number, second: number): boolean {
  if (first === 10) return true
  if (first === 172) return second >= 16 && second <= 31
  if (first === 192) return second === 168
  if (first === 169) return second === 254
  return first === 100 && second >= 64 && second <= 127
}
