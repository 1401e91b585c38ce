import { expect, it } from 'vitest'
import { parseFolder } from './sandbox-path.ts'

it.each(['.', 'src', '/tmp', '-1', ' '])('accepts %j as a folder in the sandbox', (text) => {
  expect(parseFolder(text, '--cwd')).toBe(text)
})

it.each([
  ['', 'usage', '--cwd is empty'],
  ['a\0b', 'usage', '--cwd contains a NUL byte'],
  ['x'.repeat(5000), 'too_large', '--cwd is too long: 5,000 bytes'],
])('refuses %j with a message about the option', (text, code, message) => {
  expect(() => parseFolder(text, '--cwd')).toThrow(expect.objectContaining({ code, message }))
})
