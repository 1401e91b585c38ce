import { describe, expect, it } from 'vitest'
import { IMAGE_LABELS } from './dockerfile.ts'
import { imageName, keepingName, ownNames, replacementName } from './image-names.ts'

const ID = `sha256:${'ab'.repeat(32)}`
const INPUTS = '0123456789ab'.padEnd(64, '0')
const LABELS = { [IMAGE_LABELS.kind]: 'sandbox', [IMAGE_LABELS.inputs]: INPUTS }
const FIRST = imageName({ kind: 'sandbox', inputs: INPUTS })
const LATER = replacementName({ kind: 'sandbox', inputs: INPUTS }, ID)
const KEEPING = keepingName(import.meta.dirname, ID)

describe('an image', () => {
  it('is Craik’s if it has the name that Craik gave it', () => {
    expect(ownNames(ID, ['mine:1', FIRST], LABELS)).toEqual({ made: FIRST, isFirst: true, keeping: [] })
    expect(ownNames(ID, [`localhost/${LATER}`], LABELS)).toMatchObject({ made: LATER, isFirst: false })
  })

  it('belongs to the owner of its name when it only inherited the labels', () => {
    const foreign = { made: undefined, isFirst: false, keeping: [] }
    const others = [
      'hostile:volume',
      'craik/sandbox:mine',
      'craik/base:0123456789ab',
      'x/craik/sandbox:0123456789ab',
    ]
    for (const name of [...others, `${FIRST}-ba9876543210`, 'craik/home-0123456789abcdef:ba9876543210'])
      expect(ownNames(ID, [name], LABELS), name).toEqual(foreign)
    for (const tags of [null, [], ['<none>:<none>']]) expect(ownNames(ID, tags, LABELS)).toEqual(foreign)
    expect(ownNames(ID, [FIRST, KEEPING], {})).toEqual(foreign)
  })

  it('is kept by each home that has created a container from it', () => {
    const other = 'craik/home-0123456789abcdef:abababababab'
    expect(ownNames(ID, [KEEPING, other, FIRST], LABELS).keeping).toEqual([KEEPING, other])
  })
})
