/**
 * Compares the output that a page shows with the output of a command: words exactly, but numbers, times, sizes, ids and
 * versions only by their kind.
 */

const EXAMPLE_ID = /(?<![a-z])([a-z]+)_([0-9A-HJKMNP-TV-Z]{26})\b/g
/** Matches `sandbox-7f3kq2`, but no word of Craik such as `sandbox-create`. */
const SANDBOX_NAME = /\bsandbox-(?!create|delete|update|images?\b)[a-z0-9]{6}\b/g

/** Applied in this order. */
const KINDS: readonly (readonly [RegExp, string])[] = [
  [/\blocal-user:[\w-]+/g, 'local-user:<name>'],
  [/\/home\/\w+/g, '~'],
  [EXAMPLE_ID, '$1_<id>'],
  [/(?<![a-z])([a-z]+)_[0-9A-Z]{2,12}…[0-9A-Z]{2,8}\b/g, '$1_<id>'],
  [/\b[0-9A-HJKMNP-TV-Z]{26}\b/g, '<id>'],
  [SANDBOX_NAME, 'sandbox-<name>'],
  [/\bsha256:(?:[0-9a-f]+|…)+/g, 'sha256:<hex>'],
  [/\b(?=[a-f]*\d)[0-9a-f]{7,}\b/g, '<hex>'],
  [/(?<![\w/+])[A-Za-z0-9+/]{40,}={0,2}/g, '<base64>'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d[:-]\d\d(?:[:-]\d\d(?:\.\d+)?)?Z?)?/g, '<time>'],
  [/\b\d\d:\d\d(?::\d\d)?\b/g, '<time>'],
  [/\b(127\.0\.0\.1|localhost):\d+/g, '$1:<port>'],
  [/\$\d[\d,]*(?:\.\d+)?/g, '<money>'],
  [/(?<![\w.-])\d[\d,]*(?:\.\d+)?\s?(?:B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)(?!\w)/g, '<size>'],
  [/(?<![\w.-])(?:\d[\d,]*(?:\.\d+)?\s?(?:ms|s|min|m|h|d)\s?)+(?!\w)/g, '<duration> '],
  [/(?<![\w.])v?\d+\.\d+(?:\.\d+)?(?:-[\w.]+)?(?![\w.])/g, '<version>'],
  [/\b\d{1,3}(?:,\d{3})+\b/g, '<number>'],
]
/** Matches a count: zero differs from all others. Exit codes and HTTP status codes are compared exactly. */
const COUNT = /(?<!\bexit |\bexit code |\bHTTP |[\w.:/-])\d+(?![\w:])/g

function normalize(line: string): string {
  let text = line
  for (const [pattern, kind] of KINDS) text = text.replace(pattern, kind)
  return text
    .replace(COUNT, (count) => (Number(count) === 0 ? '0' : '<number>'))
    .replace(/\s+/g, ' ')
    .trim()
}

function matches(expected: string, line: string): boolean {
  const parts = normalize(expected).split('…')
  const pattern = parts.map((part) => part.trim().replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')
  return new RegExp(`^${pattern}$`).test(normalize(line))
}

/** Craik wraps long lines at the width of the terminal, and ids and paths of another length move the line break. */
const WRAPPED_LINES_MAX = 3

/** Returns the first expected line that does not follow the lines before it. */
export function firstMissing(expected: readonly string[], lines: readonly string[]): string | undefined {
  return align(expected, lines).missing
}

interface Aligned {
  readonly missing: string | undefined
  /** Each expected text with the output in its place. */
  readonly pairs: readonly (readonly [expected: string, printed: string])[]
}

function align(expected: readonly string[], lines: readonly string[]): Aligned {
  const pairs: [string, string][] = []
  const texts = expected.filter((each) => each.trim() !== '…')
  for (let from = 0, at = 0; at < texts.length; ) {
    const found = findNext(texts.slice(at), lines, from)
    if (found === undefined) return { missing: texts[at], pairs }
    pairs.push(found.pair)
    at += found.expectedLines
    from = found.end
  }
  return { missing: undefined, pairs }
}

function findNext(texts: readonly string[], lines: readonly string[], from: number) {
  for (const [wanted, printed] of WRAPS)
    for (let start = from; start + printed <= lines.length && wanted <= texts.length; start++) {
      const pair: [string, string] = [join(texts.slice(0, wanted)), join(lines.slice(start, start + printed))]
      if (matches(...pair)) return { pair, expectedLines: wanted, end: start + printed }
    }
  return undefined
}

/** The numbers of lines to compare with each other: single lines first, then joined lines. */
const WRAPS = Array.from({ length: WRAPPED_LINES_MAX ** 2 }, (_, index) => {
  const wanted = Math.floor(index / WRAPPED_LINES_MAX) + 1
  return [wanted, (index % WRAPPED_LINES_MAX) + 1] as const
})

const join = (lines: readonly string[]) => lines.join(' ')

/** Maps the example ids of a page to the real ids. */
export class ExampleIds {
  readonly #known = new Map<string, string>()
  readonly #newest = new Map<string, string>()

  learn(expected: readonly string[], lines: readonly string[]): void {
    for (const [each, printed] of align(expected, lines).pairs)
      for (const pattern of [EXAMPLE_ID, SANDBOX_NAME]) {
        const real = [...printed.matchAll(pattern)]
        for (const [example, prefix] of each.matchAll(pattern)) {
          const index = real.findIndex(([, own]) => own === prefix)
          if (index !== -1) this.#known.set(example, real.splice(index, 1)[0]![0])
        }
      }
    for (const line of lines)
      for (const [id, prefix] of line.matchAll(EXAMPLE_ID)) this.#newest.set(prefix!, id)
  }

  /** Returns the command with real ids: those in place of the page's earlier ids, else the newest of their kind. */
  resolve(command: string): string {
    return command
      .replace(
        EXAMPLE_ID,
        (example, prefix) => this.#known.get(example) ?? this.#newest.get(prefix) ?? example,
      )
      .replace(SANDBOX_NAME, (example) => this.#known.get(example) ?? example)
  }
}
