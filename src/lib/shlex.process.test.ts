import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { joinCommand, quoteArgument, splitCommand } from './shlex.ts'

describe('splitCommand', () => {
  it.each<[string, string[]]>([
    ['echo hi', ['echo', 'hi']],
    ['  echo \t hi \r\n there ', ['echo', 'hi', 'there']],
    [`echo 'a  b' "c  d"`, ['echo', 'a  b', 'c  d']],
    [`a'b'"c"d\\ e`, ['abcd e']],
    [`x '' ""`, ['x', '', '']],
    [`x ''''`, ['x', '']],
    [`'\\n"$a'`, ['\\n"$a']],
    [`"\\"\\\\\\$\\\`\\n"`, ['"\\$`\\n']],
    ['"a\\\nb" c\\\nd', ['ab', 'cd']],
    ['a \\\n b', ['a', 'b']],
    [`\\'a\\"`, [`'a"`]],
    ['a#b # c', ['a#b', '#', 'c']],
    ['ls *.ts | wc > $HOME/x && `id` $(id) ; ~', 'ls *.ts | wc > $HOME/x && `id` $(id) ; ~'.split(' ')],
    ['größe 日本 a\u00a0b', ['größe', '日本', 'a\u00a0b']],
  ])('splits %j', (text, argv) => {
    expect(splitCommand(text)).toEqual(argv)
  })

  it.each([
    ["echo 'a", 'single quote at column 6'],
    ['echo "a', 'double quote at column 6'],
    ['"a\\"', 'double quote at column 1'],
    [`"é😀" 'x`, 'single quote at column 6'],
    ["echo\n'x", 'single quote at line 2, column 1'],
    ['echo \\', 'backslash at column 6'],
    ['a\0b', 'NUL byte at column 2'],
    ['', 'nothing to run'],
    [' \n\t', 'nothing to run'],
    ['\\\n', 'nothing to run'],
  ])('refuses %j and reports where', (text, message) => {
    expect(() => splitCommand(text)).toThrow(
      expect.objectContaining({ code: 'usage', message: expect.stringContaining(message) }),
    )
  })

  it('accepts 128 KiB of text and not one byte more', () => {
    expect(splitCommand('x'.repeat(131_072))).toHaveLength(1)
    expect(() => splitCommand('x'.repeat(131_073))).toThrow(expect.objectContaining({ code: 'too_large' }))
    expect(() => splitCommand('é'.repeat(65_537))).toThrow(expect.objectContaining({ code: 'too_large' }))
  })

  it('accepts 4096 words and not one more', () => {
    expect(splitCommand('x '.repeat(4096))).toHaveLength(4096)
    expect(() => splitCommand('x '.repeat(4097))).toThrow(expect.objectContaining({ code: 'too_large' }))
    expect(() => splitCommand(`${'x '.repeat(4096)}x`)).toThrow(
      expect.objectContaining({ code: 'too_large' }),
    )
  })

  it('agrees with Python’s shlex on random text', (context) => {
    const python = spawnSync('python3', ['-c', 'import shlex'])
    if (python.status !== 0) return context.skip('python3 is not on this machine')
    const seed = Date.now()
    const pieces = fc.constantFrom(...'ab \t\r\n\'"\\#$`*|>;&é😀'.split(/(?:)/u), "''", '""', '\\\\', '\\"')
    const texts = fc
      .sample(fc.array(pieces, { maxLength: 24 }), { numRuns: 5000, seed })
      .map((parts) => parts.join(''))
      .filter((text) => !/\\[$`\n]/.test(text) && text.trim() !== '')
    const script = [
      'import json, shlex, sys',
      'def split(text):',
      '    try: return shlex.split(text)',
      '    except ValueError: return None',
      'print(json.dumps([split(text) for text in json.load(sys.stdin)]))',
    ].join('\n')
    const { stdout } = spawnSync('python3', ['-c', script], {
      input: JSON.stringify(texts),
      encoding: 'utf8',
    })
    const theirs: (string[] | null)[] = JSON.parse(stdout)
    expect(theirs).toHaveLength(texts.length)
    const ours = texts.map((text) => {
      try {
        return splitCommand(text)
      } catch {
        return null
      }
    })
    const at = ours.findIndex((argv, i) => JSON.stringify(argv) !== JSON.stringify(theirs[i]))
    expect(at === -1 ? [] : [seed, texts[at], ours[at]]).toEqual(
      at === -1 ? [] : [seed, texts[at], theirs[at]],
    )
    expect(theirs.filter((argv) => argv !== null).length).toBeGreaterThan(100)
  })

  it.each([`"\\$a\\\`b\\\nc\\d"`, 'x\\$y', 'a\\\nb', '"\\\n"', `'\\\n'`])('agrees with sh on %j', (text) => {
    const { stdout } = spawnSync('sh', ['-c', `printf '%s\\0' ${text}`], { encoding: 'utf8' })
    expect(splitCommand(text)).toEqual(stdout.split('\0').slice(0, -1))
  })
})

describe('joinCommand', () => {
  const argument = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...'ab \t\n\'"\\$`é') }),
  )
  const argv = fc.array(
    argument.filter((text) => !text.includes('\0')),
    { minLength: 1 },
  )

  it('is reversed by splitCommand, for any arguments', () => {
    fc.assert(
      fc.property(argv, (words) => {
        expect(splitCommand(joinCommand(words))).toEqual(words)
      }),
    )
  })

  it('leaves plain words unquoted and quotes the rest', () => {
    expect(joinCommand(['git', 'log', '--format=%H', 'a b', '', "it's"])).toBe(
      `git log --format=%H 'a b' '' 'it'\\''s'`,
    )
    expect(quoteArgument('~')).toBe(`'~'`)
  })

  it('gives sh the same arguments', () => {
    const words = ["it's", '$HOME', '`id`', 'a\nb', '', '*', '"\\']
    const { stdout } = spawnSync('sh', ['-c', `printf '%s\\0' ${joinCommand(words)}`], { encoding: 'utf8' })
    expect(stdout.split('\0').slice(0, -1)).toEqual(words)
  })
})
