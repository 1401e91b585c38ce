import { expect, it } from 'vitest'
import { imageLine } from './image-bar.ts'

it('shows the progress, the current step and the elapsed time', () => {
  expect(imageLine({ part: 0, doing: 'asking Debian for packages' }, 1)).toBe(
    '  image  ▕                    ▏   0%  asking Debian for packages · 1 s',
  )
  expect(imageLine({ part: 0.81, doing: 'packing' }, 40)).toBe(
    '  image  ▕████████████████    ▏  81%  packing · 40 s',
  )
  expect(imageLine({ part: 1, doing: 'done' }, 61)).toContain('▕████████████████████▏ 100%  done')
})
