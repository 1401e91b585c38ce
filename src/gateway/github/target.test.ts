import { describe, expect, it } from 'vitest'
import { apiTarget, gitTarget, siteOf } from './target.ts'

const GITHUB = { baseUrl: 'https://api.github.com' }
const ENTERPRISE = { baseUrl: 'https://ghe.example/api/v3' }

describe('a git request', () => {
  it.each([
    ['GET', '/git/github.com/ada/engine.git/info/refs?service=git-upload-pack', 'git_read'],
    ['GET', '/git/github.com/ada/engine/info/refs?service=git-upload-pack', 'git_read'],
    ['POST', '/git/github.com/ada/engine.git/git-upload-pack', 'git_read'],
    ['GET', '/git/github.com/ada/engine.git/info/refs?service=git-receive-pack', 'git_write'],
    ['POST', '/git/github.com/ada/engine.git/git-receive-pack', 'git_write'],
  ])('%s %s is for %s, on the account’s own site', (method, path, operation) => {
    const found = gitTarget(method, path, GITHUB)
    expect(found).toMatchObject({ operation, target: 'github/ada/engine', credential: 'basic' })
    expect(found!.url.href).toMatch(/^https:\/\/github\.com\/ada\/engine\.git\//)
  })

  it.each([
    ['GET', '/git/evil.example/ada/engine.git/info/refs?service=git-upload-pack'],
    ['GET', '/git/github.com@evil.example/ada/engine.git/info/refs?service=git-upload-pack'],
    ['GET', '/git/github.com/ada/engine.git/info/refs'],
    ['GET', '/git/github.com/ada/engine.git/info/refs?service=git-shell'],
    ['GET', '/git/github.com/ada/../settings/info/refs?service=git-upload-pack'],
    ['GET', '/git/github.com/settings/tokens'],
    ['DELETE', '/git/github.com/ada/engine.git/git-upload-pack'],
    ['GET', '/git/github.com/ada/engine.git/git-upload-pack'],
    ['POST', '/git/github.com/ada/engine.git/git-upload-pack?x=1'],
    ['POST', '/git/github.com//engine.git/git-upload-pack'],
  ])('%s %s is refused', (method, path) => {
    expect(gitTarget(method, path, GITHUB)).toBeUndefined()
  })

  it('goes to the enterprise’s own host if the account is an enterprise account', () => {
    expect(siteOf(ENTERPRISE).href).toBe('https://ghe.example/')
    expect(gitTarget('POST', '/git/ghe.example/ada/engine.git/git-upload-pack', ENTERPRISE)?.url.href).toBe(
      'https://ghe.example/ada/engine.git/git-upload-pack',
    )
    expect(gitTarget('POST', '/git/github.com/ada/engine.git/git-upload-pack', ENTERPRISE)).toBeUndefined()
  })
})

describe('a gh request', () => {
  it('goes to the account’s API, with any path', () => {
    expect(apiTarget('/user', GITHUB)?.url.href).toBe('https://api.github.com/user')
    expect(apiTarget('/repos/ada/engine/pulls?state=open', GITHUB)?.url.href).toBe(
      'https://api.github.com/repos/ada/engine/pulls?state=open',
    )
    expect(apiTarget('//evil.example/user', GITHUB)?.url.host).toBe('api.github.com')
    expect(apiTarget('/user', ENTERPRISE)?.url.href).toBe('https://ghe.example/api/v3/user')
    expect(apiTarget('/api/v3/user', ENTERPRISE)?.url.href).toBe('https://ghe.example/api/v3/user')
    expect(apiTarget('/api/graphql', ENTERPRISE)?.url.href).toBe('https://ghe.example/api/graphql')
  })

  it.each(['/../login', '/a/%2e%2e/login', '/a%2Flogin', '/a b', 'http://evil.example/', '/\u0000'])(
    'to %j is refused',
    (path) => {
      expect(apiTarget(path, ENTERPRISE)).toBeUndefined()
    },
  )
})
