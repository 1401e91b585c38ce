/** The repository of the documentation pages, and the model of their agents. */
import type { ModelScript } from '../harnesses/agent-model.ts'

/** The files of `~/code/shop`. Its tests pass, but a price with a thousands separator is wrong. */
export const SHOP: Readonly<Record<string, string>> = {
  'README.md': '# Shop\n\nPrices for a small shop.\n',
  '.gitignore': 'node_modules/\n',
  'package.json': `${JSON.stringify(
    {
      name: 'shop',
      version: '1.0.0',
      private: true,
      type: 'module',
      scripts: { test: 'node test/price.js' },
    },
    null,
    2,
  )}\n`,
  'src/price.js': `/** '12.50' in cents. */
export function parsePrice(text) {
  return Math.round(Number(text) * 100)
}

export function formatPrice(cents) {
  return (cents / 100).toFixed(2)
}
`,
  'test/price.js': `import assert from 'node:assert'
import { formatPrice, parsePrice } from '../src/price.js'

assert.equal(formatPrice(1250), '12.50')
assert.equal(parsePrice('12.50'), 1250)
console.log('all tests passed')
`,
}

const repair = (test: string, file: string) => [
  test,
  `sed -i "s/Number(text)/Number(text.replaceAll(',', ''))/" ${file}`,
  test,
]
const FIXED = 'parsePrice did not accept a thousands separator. It removes commas before it parses.'
const ANSWER = 'The shop formats and parses prices.'

/**
 * The model of the pages. "make the price test pass" (or fix a test) repairs `src/price.js`, and "make test.mjs pass"
 * repairs `price.mjs`. "write NOTES.md" writes that file, `RUN: command` runs a command, and anything else gets an
 * answer.
 */
export const DOCS_SCRIPT: ModelScript = {
  order:
    /\btests? pass\b|\btest\.mjs pass\b|\bfix the .*test|\b(?:add|create|write) (?:a |the )?(?:file )?[\w/-]+\.\w+|RUN: /i,
  next(prompt, results) {
    const file = /\b(?:add|create|write) (?:a |the )?(?:file )?([\w/-]+\.\w+)/i.exec(prompt)?.[1]
    const command = /RUN: (.+?)(?:"|\n|$)/.exec(prompt)?.[1]
    if (command !== undefined) return { command: [command][results], text: 'Done.' }
    if (file !== undefined)
      return { command: [`printf '# Notes\\n' > ${file}`][results], text: `I wrote ${file}.` }
    if (/\btest\.mjs pass\b/.test(prompt))
      return { command: repair('node test.mjs', 'price.mjs')[results], text: FIXED }
    if (this.order.test(prompt)) return { command: repair('npm test', 'src/price.js')[results], text: FIXED }
    return { text: ANSWER }
  },
}
