/** The settings of every sandbox for its user and for git: a prompt, a shell history, git hooks, refused variables. */
import { describe, expect, it } from 'vitest'
import type { GetInstance } from './instance.ts'
import { TerminalWindow } from './terminal-window.ts'

/** Creates a repository with a commit of another author, and a remote to push to, in a new folder. */
const REPOSITORY = `
set -e
folder=$(mktemp -d ~/push-XXXXXX)
git init -q --bare "$folder/there.git"
git init -q -b main "$folder/here"
cd "$folder/here"
git config user.name Ada
git config user.email ada@example.com
git remote add origin ../there.git
echo one >file
git add file
git -c user.email=work@corp.example commit -q -m one
`

export function settingsContract(getInstance: GetInstance): void {
  const run = (script: string, env: Readonly<Record<string, string>> = {}) =>
    getInstance().box.exec(['bash', '-c', REPOSITORY + script], { env })

  describe.each([
    ['a login shell', ['bash', '-l']],
    ['a shell in a shell', ['bash']],
  ])('%s', (_, argv) => {
    it('shows the sandbox and the folder in its prompt, keeps its history outside the home, and finds programs in the home', async () => {
      await using window = new TerminalWindow(getInstance(), argv, {
        env: { CRAIK_SANDBOX_NAME: 'octo-sandbox' },
      })
      await window.shows(' octo-sandbox ~/project $ ')
      // Before the prompt, only control sequences for the terminal appear.
      expect(window.text.replaceAll(/\x1b\[[?0-9]*[a-zA-Z]/g, '')).toBe(' octo-sandbox ~/project $ ')
      window.types('cd /; echo "<$HISTFILE>" "<$(echo $PATH | cut -d : -f 1)>"\r')
      await window.shows('</tmp/.bash_history> </workspace/home/.local/bin>')
      await window.shows(' octo-sandbox / $ ')
      window.types('exit\r')
      expect((await window.ended).result).toMatchObject({ outcome: 'exited', exitCode: 0 })
      expect(
        (
          await getInstance().box.exec([
            'sh',
            '-c',
            'ls -A ~ | grep bash; grep -c HISTFILE /tmp/.bash_history',
          ])
        ).stdout,
      ).toMatch(/^[1-9]/)
    })
  })

  it('a history file that is a link is kept at the target of the link', async () => {
    await getInstance().box.exec(['sh', '-c', 'mkdir -p ~/kept && ln -s kept/history ~/.bash_history'])
    try {
      await using window = new TerminalWindow(getInstance(), ['bash'])
      window.types('echo "<$HISTFILE>"\r')
      await window.shows('</workspace/home/.bash_history>')
      window.types('exit\r')
      await window.ended
      expect((await getInstance().box.exec(['sh', '-c', 'cat ~/kept/history'])).stdout).toContain('HISTFILE')
    } finally {
      await getInstance().box.exec(['sh', '-c', 'rm -rf ~/.bash_history ~/kept'])
    }
  })

  describe('a push', () => {
    it('with commits of another author is refused, and names the author and the command to allow it', async () => {
      const { code, stderr } = await run('git push -q origin main')
      expect(code).toBe(1)
      expect(stderr).toMatch(/craik: not pushed: 1 of its commits is not by ada@example\.com/)
      expect(stderr).toMatch(/[0-9a-f]{12} {2}author work@corp\.example, committer work@corp\.example/)
      expect(stderr).toContain('git config --global --add craik.allowedAuthor EMAIL')
    })

    it('succeeds when the author was corrected or is allowed', async () => {
      const mended = 'git commit -q --amend --no-edit --reset-author && git push -q origin main'
      expect(await run(mended)).toMatchObject({ code: 0, stderr: '' })
      const allowed = 'git config --add craik.allowedAuthor work@corp.example && git push -q origin main'
      expect(await run(allowed)).toMatchObject({ code: 0, stderr: '' })
      expect(await run('git push -q origin main', { CRAIK_ALLOW_AUTHORS: '1' })).toMatchObject({ code: 0 })
    })

    it('is checked by a hook that the sandbox cannot change', async () => {
      const { code, stderr } = await run('cd "$(git config core.hooksPath)" && pwd >&2 && echo >>pre-push')
      expect(code).not.toBe(0)
      expect(stderr).toContain('/opt/craik/git-hooks')
    })
  })

  it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])('no command and no sandbox accepts %s', async (name) => {
    const refused = { code: 'refused_variable', message: expect.not.stringContaining('made-up-value') }
    const env = { [name]: 'made-up-value' }
    await expect(getInstance().box.exec(['true'], { env })).rejects.toMatchObject(refused)
    const { code, stderr } = await getInstance().home.tryToCreate(['--env', `${name}=made-up-value`])
    expect(code).toBe(64)
    expect(stderr).toContain(`sets ${name}, which sandboxes must not see`)
    expect(stderr).not.toContain('made-up-value')
  })
}
